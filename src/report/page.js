// Values under the pointer. Without this script the browser shows the same <title>s by itself.
(() => {
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  for (const title of document.querySelectorAll("svg.chart title")) {
    const shape = title.parentNode;
    shape.dataset.tip = title.textContent;
    shape.setAttribute("aria-label", title.textContent);
    title.remove(); // or it would be shown twice
  }

  // A cell of a heat map: its value was rounded to one of 254 steps between lo and hi.
  const cell = (image, x, y) => {
    const d = image.dataset, box = image.getBoundingClientRect();
    const at = (share, n) => Math.min(n - 1, Math.max(0, Math.floor(share * n)));
    const row = at((y - box.top) / box.height, +d.rows), col = at((x - box.left) / box.width, +d.cols);
    image.steps = image.steps || atob(d.steps);
    const step = image.steps.charCodeAt(row * d.cols + col);
    if (step === 0) return "0";
    const lo = +d.lo, hi = +d.hi, share = (step - 1) / 254;
    return "about " + (d.log === "1" ? lo * (hi / lo) ** share : lo + (hi - lo) * share).toPrecision(2);
  };

  const show = (e) => {
    const shape = e.target.closest ? e.target.closest("[data-tip]") : null;
    tip.style.visibility = shape ? "visible" : "hidden";
    if (!shape) return;
    tip.textContent = shape.dataset.steps ? cell(shape, e.clientX, e.clientY) : shape.dataset.tip;
    const left = e.clientX + 14, top = e.clientY + 16;
    tip.style.left = Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (top + tip.offsetHeight > innerHeight ? e.clientY - tip.offsetHeight - 10 : top) + "px";
  };
  addEventListener("pointermove", show);
  addEventListener("pointerdown", show);
  addEventListener("scroll", () => { tip.style.visibility = "hidden"; }, { passive: true });

  // Flipped texts: shown if they hold all words that were typed, and suit the chosen model and attack.
  for (const form of document.querySelectorAll("form.filter")) {
    const items = [...form.parentNode.querySelectorAll("ul.flips > li")];
    const plain = items.map((li) => li.textContent.toLowerCase());
    const who = items.map((li) => li.querySelector(".who").textContent);
    const filter = () => {
      const words = form.find.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      items.forEach((li, i) => {
        const attacks = who[i].slice(who[i].lastIndexOf(", by") + 4).split(" ");
        li.hidden = !(words.every((w) => plain[i].includes(w)) &&
          (!form.model.value || li.dataset.model === form.model.value) &&
          (!form.attack.value || attacks.includes(form.attack.value)));
        shown += !li.hidden;
      });
      form.querySelector("output").textContent = `${shown} of ${items.length}`;
    };
    form.hidden = false;
    form.addEventListener("input", filter);
    form.addEventListener("submit", (e) => e.preventDefault());
    filter();
  }
  addEventListener("beforeprint", () => { for (const d of document.querySelectorAll("details:not(.all)")) d.open = true; });
})();
