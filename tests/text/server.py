"""A small HTTP server for test_fetch.c: python3 server.py FOLDER LOG. Prints its port.

/NAME          the file, ranges honoured
/cut/NAME      half of it, then the connection breaks; ranges honoured
/norange/NAME  the file, ranges ignored
/changed/NAME  412 for a request that continues an older file
/moved/NAME    redirects to /NAME
Each request is a line of LOG: path and range."""
import http.server
import os
import sys

folder, log = sys.argv[1], sys.argv[2]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        parts = self.path.split("?")[0].strip("/").split("/")
        how, name = (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
        range_ = self.headers.get("Range")
        with open(log, "a") as f:
            f.write(f"{self.path} {range_ or '-'}\n")
        path = os.path.join(folder, name)
        if how == "moved":
            self.send_response(302)
            self.send_header("Location", "/" + name)
            self.end_headers()
            return
        if not os.path.exists(path):
            self.send_error(404)
            return
        if how == "changed" and self.headers.get("If-Unmodified-Since"):
            self.send_error(412)
            return
        with open(path, "rb") as f:
            data = f.read()
        first = 0
        if range_ and how != "norange":
            first = int(range_[len("bytes="):].split("-")[0])
            if first >= len(data):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        self.wfile.write(data[first:len(data) // 2] if how == "cut" and not range_ else data[first:])

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
