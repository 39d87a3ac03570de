"""The guided set-up's question to a host: prints one line of JSON. Reads, and changes nothing."""

import json
import os
import platform
from pathlib import Path

from cockpit.runtime.scripts.hub import cache
from cockpit.runtime.scripts.programs import at_once, call

LIMIT = 10.0


def read(path: Path) -> str:
    """A file's text without its line break, "" when it can't be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def interfaces() -> list[dict[str, object]]:
    """Network interfaces with their driver, link, speed in Mb/s (-1: unknown) and IPv4 addresses."""
    found = []
    rows = json.loads(said("ip", "-j", "addr") or "[]")
    for row in rows:
        name = str(row.get("ifname", ""))
        folder = Path("/sys/class/net") / name
        speed = read(folder / "speed")
        driver = folder / "device" / "driver"
        found.append(
            {
                "name": name,
                "driver": driver.resolve().name if driver.exists() else "",
                "up": read(folder / "operstate") == "up",
                "speed": int(speed) if speed.lstrip("-").isdigit() else -1,
                "addresses": [
                    f"{a['local']}/{a['prefixlen']}"
                    for a in row.get("addr_info", [])
                    if a.get("family") == "inet"
                ],
            }
        )
    return found


def models() -> list[str]:
    """The models in the Hugging Face cache, as ``owner/name``."""
    try:
        folders = sorted(path.name for path in cache(dict(os.environ)).iterdir())
    except OSError:
        return []
    return [
        name.removeprefix("models--").replace("--", "/", 1) for name in folders if name.startswith("models--")
    ]


def memory() -> int:
    """All memory, in bytes."""
    for line in read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def said(*argv: str) -> str:
    """The output of a program; "" when it is not there, fails or does not answer."""
    answer = call(*argv, limit=LIMIT)
    return answer.output if answer.status == 0 else ""


def main() -> None:
    """Ask everything, what may take long at once."""
    gpus, images, docker, ports = at_once(
        lambda: said("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader").splitlines(),
        lambda: said("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}").splitlines(),
        lambda: said("docker", "version", "--format", "{{.Server.Version}}").strip(),
        interfaces,
    )
    facts = {
        "name": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "memory": memory(),
        "gpus": [row.split(", ", 1) for row in gpus if ", " in row],
        "docker": docker,
        "images": [image for image in images if "<none>" not in image],
        "interfaces": ports,
        "models": models(),
    }
    print(json.dumps(facts), flush=True)
    os._exit(0)


main()
