"""Runs inside a sandbox: what the agent can do with files. Request on stdin, answer on stdout."""

import ctypes
import errno
import json
import mmap
import os
import sys


def attempt(step):
    try:
        step()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except Exception as error:
        return type(error).__name__
    return "ok"


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def map_shared(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        with mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as view:
            view[0] = 65
    finally:
        os.close(fd)


def read(path):
    with open(path, "rb") as file:
        return file.read(200).decode("utf-8", "replace")


request = json.loads(sys.stdin.readline())
ro, rw = request["read_only"], request["read_write"]
answer = {
    "environ": dict(os.environ),
    "ids": [os.getuid(), os.getgid(), os.getgroups()],
    "root": sorted(os.listdir("/")),
    "etc": {name: read("/etc/" + name) for name in ("passwd", "hosts", "resolv.conf", "ssl/cert.pem")},
    "processes": [read(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdecimal()],
    "descriptors": len(os.listdir("/proc/self/fd")),
    "status": read("/proc/self/status"),
    "mounts": open("/proc/self/mounts").read(),
    "hidden": {path: attempt(lambda path=path: os.stat(path)) for path in request["hidden"]},
    "listed": sorted(os.listdir(ro)),
    "read_only": {
        "read": attempt(lambda: read(ro + "/input.txt")),
        "create": attempt(lambda: create(ro + "/new")),
        "append": attempt(lambda: os.open(ro + "/input.txt", os.O_WRONLY | os.O_APPEND)),
        "truncate": attempt(lambda: os.truncate(ro + "/input.txt", 0)),
        "unlink": attempt(lambda: os.unlink(ro + "/input.txt")),
        "rename": attempt(lambda: os.rename(ro + "/input.txt", ro + "/other")),
        "rename_away": attempt(lambda: os.rename(ro, ro + "2")),
        "chmod": attempt(lambda: os.chmod(ro + "/input.txt", 0o777)),
        "chmod_directory": attempt(lambda: os.chmod(ro, 0o777)),
        "tmpfile": attempt(lambda: os.open(ro, os.O_TMPFILE | os.O_RDWR)),
        "xattr": attempt(lambda: os.setxattr(ro + "/input.txt", "user.x", b"1")),
        "mmap": attempt(lambda: map_shared(ro + "/input.txt")),
        "utime": attempt(lambda: os.utime(ro + "/input.txt")),
        "link_out": attempt(lambda: os.link(ro + "/input.txt", rw + "/linked")),
        "through_proc": attempt(lambda: create("/proc/self/root" + ro + "/new")),
    },
    "read_write": {
        "create": attempt(lambda: create(rw + "/made")),
        "mkdir": attempt(lambda: os.mkdir(rw + "/directory")),
        "setuid": attempt(lambda: os.chmod(rw + "/made", 0o4755)),
        "device": attempt(lambda: os.mknod(rw + "/null", 0o20666, os.makedev(1, 3))),
    },
    "system": {
        path: attempt(lambda path=path: create(path))
        for path in (
            "/x",
            "/usr/x",
            "/usr/bin/x",
            "/etc/x",
            "/opt/x",
            "/proc/x",
            "/run/x",
            "/var/x",
            "/dev/x",
        )
    },
    "mount": ctypes.CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "unshare": ctypes.CDLL(None).unshare(0x10000000 | 0x00020000),
    "carved": {
        path: {
            "list": attempt(lambda path=path: os.listdir(path)) and sorted(os.listdir(path)),
            "create": attempt(lambda path=path: create(path + "/x")),
            "replace": attempt(lambda path=path: os.rmdir(path)),
            "rename": attempt(lambda path=path: os.rename(path, path + ".away")),
            "rename_parent": attempt(
                lambda path=path: os.rename(os.path.dirname(path), os.path.dirname(path) + ".away")
            ),
            "through_link": attempt(lambda path=path: (os.symlink(path, rw + "/l"), create(rw + "/l/x"))),
        }
        for path in request["carved"]
    },
    "tmp": attempt(lambda: create("/tmp/x")),
}
print(json.dumps(answer))
