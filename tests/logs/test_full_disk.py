"""A full disk here: it is said, what comes is shown all the same, and afterwards the copy is whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
    import asyncio, os, sys
    from pathlib import Path
    from cockpit.hosts.factory import open_host
    from cockpit.logs import spool as room
    from cockpit.logs.follow import Follower, Full, Gap, HasRoom
    from cockpit.logs.log import Log
    from cockpit.logs.printing import Printed, print_log
    from cockpit.model.command import script
    from tests.hosts.sshd import eventually, spec

    small, host_log = Path(sys.argv[1]), Path(sys.argv[2])
    room.KEPT = 400_000
    filler = small / "filler"

    def add(text, size):
        line = b"%s %%07d\\n" % text
        with host_log.open("ab") as file:
            file.write(b"".join(line % at for at in range(size // len(line % 0))))

    async def main():
        host = open_host(spec("local"))
        spool = room.Spool(small / "spool.log")
        printed = Printed(Log.open(spool.path))
        events, out = [], []
        printed.follower = Follower(
            "serve", host, lambda text, why: script("spark-1", text, why), str(host_log), spool,
            printed.told.put_nowait,
        )
        add(b"before", 100_000)
        task = asyncio.ensure_future(
            print_log(printed, out.append, follow=True, tell=lambda _, event: events.append(event))
        )
        shown = lambda: b"".join(out)
        await eventually(lambda: shown() == host_log.read_bytes())

        left = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
        filler.write_bytes(b"f" * (left - 20_000))
        add(b"while full", 200_000)
        await eventually(lambda: any(isinstance(event, Full) for event in events))
        await eventually(lambda: shown() == host_log.read_bytes())
        assert spool.path.stat().st_size < host_log.stat().st_size
        # The view reads the same bytes.
        view = Log.open(spool.path)
        assert view.file.read(0, view.file.size) == host_log.read_bytes()
        while view.index.extend():
            pass
        assert view.index.newlines == host_log.read_bytes().count(b"\\n")

        filler.unlink()
        await eventually(lambda: spool.path.read_bytes() == host_log.read_bytes())
        await eventually(lambda: any(isinstance(event, HasRoom) for event in events))
        view.refresh()
        assert view.file.read(0, view.file.size) == host_log.read_bytes() and not view.stale

        # More than memory holds: the last bytes are shown, what lies between is marked.
        left = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
        filler.write_bytes(b"f" * (left - 20_000))
        add(b"too much", 900_000)
        last = host_log.read_bytes()[-1000:]
        await eventually(lambda: spool.dropped and shown().endswith(last))
        view.refresh()
        assert view.stale
        view = Log.open(spool.path)
        assert [mark.kind for mark in view.marks] == ["full"]
        assert view.file.size + view.marks[0].size == host_log.stat().st_size
        assert view.file.read(view.file.size - 1000, view.file.size) == last

        # Rotated in the meantime: nothing is written out of turn.
        rotated = host_log.rename(host_log.with_name("serve.log.1"))
        host_log.write_bytes(b"rotated\\n")
        await asyncio.sleep(1)
        filler.unlink()
        whole = rotated.read_bytes() + b"rotated\\n"
        await eventually(lambda: spool.path.read_bytes() == whole)
        assert [(mark.at, mark.kind) for mark in spool.marks] == [(len(whole) - 8, "rotated")]
        await eventually(lambda: shown().endswith(b"rotated\\n"))
        task.cancel()
        await asyncio.wait([task])
        await host.close()
        print("shown")

    asyncio.run(main())
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare(1)")
def test_what_comes_is_shown_while_the_disk_is_full(tmp_path: Path) -> None:
    """In a mount namespace of its own, on a file system of four megabytes."""
    small = tmp_path / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=4m none "$1" && exec "$2" -c "$3" "$1" "$4"'
    words = [str(small), sys.executable, textwrap.dedent(PROGRAM), str(tmp_path / "serve.log")]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    assert done.stdout == "shown\n"
