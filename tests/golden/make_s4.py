#!/usr/bin/env python3
"""Reference values for the S4 ops: python3 make_s4.py > s4.json  (needs numpy).

Nothing of the library's algebra is used. The state (z, conj z) is written as the real vector
(Re z, Im z); its matrix A is dense, the bilinear step inverts I - dt/2 A, and gradients are complex
steps through all of it, exact to the last digits."""
import json
import math

import numpy as np


def hippo(size):
    """HiPPO-LegS of even size: Lambda, P, B of the modes in the lower half plane."""
    i = np.arange(size)
    p = np.sqrt(i + 0.5)
    skew = np.sign(i[None, :] - i[:, None]) * np.outer(p, p)
    w, v = np.linalg.eigh(-1j * skew)
    v = v[:, : size // 2]
    v = v * (np.abs(v[0]) / v[0])
    return -0.5 + 1j * w[: size // 2], v.conj().T @ p, v.conj().T @ np.sqrt(2.0 * i + 1)


def step(a, w, p, b, log_dt):
    """The discrete matrices of z' = Lambda z - P 2Re(P^* z) + B u on (Re z, Im z)."""
    n = len(a)
    dt = np.exp(log_dt)
    re, im = np.diag(-np.exp(a)), np.diag(-w)
    A = np.block([[re, -im], [im, re]]).astype(complex)
    A -= 2 * np.outer(np.concatenate([p[:, 0], p[:, 1]]), np.concatenate([p[:, 0], p[:, 1]]))
    left, eye = np.eye(2 * n) - dt / 2 * A, np.eye(2 * n)
    return (np.linalg.solve(left, eye + dt / 2 * A),
            np.linalg.solve(left, dt * np.concatenate([b[:, 0], b[:, 1]])))


def kernel(x, length):
    A, z = step(x["a"], x["w"], x["p"], x["b"], x["log_dt"])
    row = 2 * np.concatenate([x["c"][:, 0], -x["c"][:, 1]])
    out = []
    for _ in range(length):
        out.append(row @ z)
        z = A @ z
    return np.array(out)


def gradient(x, length, weight):
    """d sum(weight * kernel) / d every parameter."""
    h = 1e-30
    grad = {}
    for name, value in x.items():
        g = np.zeros(np.shape(value))
        for at in np.ndindex(g.shape):
            moved = np.array(value, dtype=complex)
            moved[at] += 1j * h
            g[at] = (weight @ kernel({**x, name: moved}, length)).imag / h
        grad[name] = g
    return grad


def pairs(z):
    return np.stack([z.real, z.imag], axis=-1)


def case(rng, lam, p, b, log_dt, length):
    n = len(lam)
    x = {"a": np.log(-lam.real), "w": -lam.imag, "p": pairs(p), "b": pairs(b),
         "c": rng.normal(size=(n, 2)) * math.sqrt(0.5), "log_dt": np.array(log_dt)}
    # What the library sees is float32: round first, so that both start from the same numbers.
    x = {name: np.float32(v).astype(float) for name, v in x.items()}
    weight = np.float32(rng.normal(size=length)).astype(float)
    return {"len": length,
            "params": {k: v.tolist() for k, v in x.items()},
            "kernel": kernel(x, length).real.tolist(),
            "dkernel": weight.tolist(),
            "grad": {k: v.tolist() for k, v in gradient(x, length, weight).items()}}


def main():
    rng = np.random.default_rng(20240517)
    lam4, p4, b4 = hippo(4)
    lam, p, b = hippo(16)
    n = 3
    free = -np.exp(rng.normal(size=n)) - 1j * rng.normal(size=n) * 3
    normal = lambda: rng.normal(size=n) + 1j * rng.normal(size=n)
    print(json.dumps({
        "note": "made by make_s4.py: arrays (re, im); grad of sum(dkernel * kernel)",
        "hippo": {"Lambda": pairs(lam4).tolist(), "P": pairs(p4).tolist(), "B": pairs(b4).tolist()},
        "cases": [case(rng, lam, p, b, math.log(0.02), 70),
                  case(rng, free, normal(), normal(), math.log(0.3), 33)],
    }, indent=1))


if __name__ == "__main__":
    main()
