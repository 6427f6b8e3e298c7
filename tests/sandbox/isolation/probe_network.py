"""Runs inside a sandbox: what the agent can reach. Request on stdin, answer on stdout."""

import errno
import json
import socket
import sys


def attempt(step):
    try:
        return step() or "ok"
    except TimeoutError:
        return "timeout"
    except socket.gaierror:
        return "no name"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(0.4)
        stream.connect(address)
        return "connected"


def datagram(family, address, protocol=0, data=b"x" * 16):
    with socket.socket(family, socket.SOCK_DGRAM, protocol) as sock:
        sock.settimeout(0.3)
        sock.sendto(data, address)
        sock.recvfrom(1024)
        return "answered"


def hello(address):
    with socket.create_connection(address, timeout=5) as stream:
        return stream.recv(100).decode()


request = json.loads(sys.stdin.readline())
proxy = (request["host"], request["port"])
inet, inet6 = socket.AF_INET, socket.AF_INET6
echo = b"\x08\x00\xf7\xfe\x00\x01\x00\x00"
GATEWAY = "gateway.affiant.internal"
ports = [1, 22, 53, 80, 111, 443, 2375, 3127, 3129, 5432, 6443, 8080, 8200, 65535, *request["machine_ports"]]
answer = {
    "proxy": attempt(lambda: hello(proxy)),
    "gateway": attempt(lambda: hello((GATEWAY, 80))),
    "sessions": attempt(lambda: hello(("sessions.affiant.internal", 80))),
    "gateway_ports": {
        port: attempt(lambda port=port: connect(inet, (GATEWAY, port))) for port in ports if port != 80
    },
    "other_ports": {port: attempt(lambda port=port: connect(inet, (proxy[0], port))) for port in ports},
    "elsewhere": {
        f"{host}:{port}": attempt(lambda host=host, port=port: connect(inet, (host, port)))
        for host, port in request["elsewhere"]
    },
    "loopback": {
        port: attempt(lambda port=port: connect(inet, ("127.0.0.1", port)))
        for port in request["machine_ports"]
    },
    "elsewhere6": {
        host: attempt(lambda host=host: connect(inet6, (host, 80))) for host in request["elsewhere6"]
    },
    "udp": {
        host: attempt(lambda host=host: datagram(inet, (host, 53)))
        for host in (proxy[0], "8.8.8.8", "10.189.0.3")
    },
    "ping": {
        host: attempt(lambda host=host: datagram(inet, (host, 0), socket.IPPROTO_ICMP, echo))
        for host in request["ping"]
    },
    "names": attempt(lambda: socket.getaddrinfo("example.com", 80)),
    "raw": attempt(lambda: socket.socket(inet, socket.SOCK_RAW, socket.IPPROTO_TCP).close()),
    "packet": attempt(lambda: socket.socket(17, socket.SOCK_RAW, 3).close()),
    "vsock": attempt(lambda: socket.socket(40, socket.SOCK_STREAM).close()),
    "abstract": attempt(lambda: connect(socket.AF_UNIX, "\0" + request["abstract"])),
    "pathname": attempt(lambda: connect(socket.AF_UNIX, request["pathname"])),
    "interfaces": sorted(name for _, name in socket.if_nameindex()),
    "routes": open("/proc/net/route").read().split("\n")[1:],
    "steal": attempt(lambda: socket.create_server(proxy).close()),
}
print(json.dumps(answer))
