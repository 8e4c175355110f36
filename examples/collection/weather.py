# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks a server, which answers after 25 ms, for the weather of 40 places. `weather.py serve` is that server."""
import concurrent.futures
import http.server
import sys
import time
import urllib.request


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.025)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"sun")

    def log_message(self, *_):
        pass


def serve():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


def ask(place):
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/{place}") as answer:
        return answer.read()


def main():
    answers = [ask(place) for place in range(40)]
    print(len(answers))


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else main()
