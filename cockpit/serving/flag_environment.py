"""Ports that collide, and an environment that contradicts the flags. Pure."""

from __future__ import annotations

from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import Profile
from cockpit.serving.arguments import value_of, written_key
from cockpit.serving.deep_explain import path
from cockpit.serving.flag_rules import environments


def port_problems(profile: Profile) -> tuple[Problem, ...]:
    """The API's port is one that the cluster itself needs on the head."""
    if len(profile.hosts) < 2:
        return ()
    taken = {profile.ray.port: "Ray's port (ray.port)", profile.ray.dashboard_port: "Ray's dashboard"}
    what = taken.get(profile.serve.port)
    if what is None:
        return ()
    free = next(port for port in range(8000, 8100) if port not in taken)
    return (
        Problem(
            "port",
            Severity.ERROR,
            f"The API's port {profile.serve.port} is {what}.",
            why="Both listen on the head; whoever comes second finds the address in use.",
            fix=(Fix(f"profile  port: {free}", {"set": {path("port"): free}}),),
            place=profile.place("serve", "flags", "port"),
        ),
    )


def bind_problem(profile: Profile, bind: str) -> Problem | None:
    """The kernel's word on the address the API is to listen on, as vLLM would hear it; None for none."""
    if not bind:
        return None
    host = value_of(profile.serve.flags, "host")
    port = profile.serve.port
    name = "host" if "assign" in bind.lower() or "Name or service" in bind else "port"
    if name == "host":
        why = f"{host} is not an address of {profile.head.name}. Leave it out to listen on all of them."
    elif "in use" in bind:
        why = (
            f"Another process on {profile.head.name} listens on port {port}; `spark-cockpit check` tells which."
        )
    else:
        why = f"vLLM binds the port right after its banner, as the user that it runs as on {profile.head.name}."
    key = written_key(profile.serve.flags, name) or name
    return Problem(
        name,
        Severity.ERROR,
        f"{host or '0.0.0.0'}:{port} can't be listened on: {bind}.",
        why=why,
        fix=(Fix("profile  - host", {"unset": [path(key)]}),) if name == "host" else (),
        place=profile.place("serve", "flags", key),
    )


def environment_problems(profile: Profile) -> tuple[Problem, ...]:
    """Variables of the profile that say the opposite of its flags, or can't be right for every host."""
    return tuple(
        found
        for found in (
            _one_address_for_all(profile),
            *_interface_of_the_serve(profile),
            _attention(profile),
            _api_key(profile),
            _other_cluster(profile),
            _hidden_gpus(profile),
        )
        if found is not None
    )


def _one_address_for_all(profile: Profile) -> Problem | None:
    if len(profile.hosts) < 2:
        return None
    for where, env in environments(profile):
        if where[0] in ("runtime", "ray") and "VLLM_HOST_IP" in env:
            return Problem(
                "VLLM_HOST_IP",
                Severity.WARNING,
                f"VLLM_HOST_IP is {env['VLLM_HOST_IP']} on every host.",
                why="Each host has its own; the cockpit sets it from hosts[].fabric.address. vLLM's older Ray "
                "executor ends with `Every node should have a unique IP address`.",
                fix=(
                    Fix("profile  - VLLM_HOST_IP", {"unset": [".".join(map(str, (*where, "VLLM_HOST_IP")))]}),
                ),
                place=profile.place(*where, "VLLM_HOST_IP"),
            )
    return None


def _interface_of_the_serve(profile: Profile) -> tuple[Problem, ...]:
    """Measured with 0.24.0 over Ray: the raylet's value wins over that of ``vllm serve``."""
    problems = []
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        value = profile.serve.env.get(name)
        own = profile.head.fabric.interface if profile.head.fabric else ""
        if len(profile.hosts) > 1 and value and value != own:
            problems.append(
                Problem(
                    name,
                    Severity.WARNING,
                    f"{name} {value} in serve.env does not reach Ray's workers.",
                    why="They have the environment that `ray start` ran in on their host. It belongs to "
                    "hosts[].fabric.interface, or to hosts[].env.",
                    fix=(Fix(f"profile  - {name}", {"unset": [f"serve.env.{name}"]}),),
                    place=profile.place("serve", "env", name),
                )
            )
    return tuple(problems)


def _attention(profile: Profile) -> Problem | None:
    flag = value_of(profile.serve.flags, "attention-backend")
    for where, env in environments(profile):
        value = env.get("VLLM_ATTENTION_BACKEND", "")
        if value and isinstance(flag, str) and flag.upper() != value.upper():
            return Problem(
                "attention-backend",
                Severity.WARNING,
                f"attention-backend is {flag}, and VLLM_ATTENTION_BACKEND says {value}.",
                why="Which of the two counts depends on vLLM's version; newer ones know the flag alone.",
                place=profile.place(*where, "VLLM_ATTENTION_BACKEND"),
            )
    return None


def _api_key(profile: Profile) -> Problem | None:
    key = written_key(profile.serve.flags, "api-key")
    if key is None:
        return None
    return Problem(
        "api-key",
        Severity.WARNING,
        "The API's key stands on the command line, where every user of the host can read it.",
        why="`ps` shows it, and it is in this profile and in plans. vLLM reads VLLM_API_KEY too, which the cockpit "
        "hands over in a file: serve.secrets: [VLLM_API_KEY].",
        place=profile.place("serve", "flags", key),
    )


def _other_cluster(profile: Profile) -> Problem | None:
    if len(profile.hosts) < 2 or "RAY_ADDRESS" not in profile.serve.env:
        return None
    address = profile.serve.env["RAY_ADDRESS"]
    if profile.head.cluster_address in address and address.endswith(f":{profile.ray.port}"):
        return None
    return Problem(
        "RAY_ADDRESS",
        Severity.ERROR,
        f"RAY_ADDRESS is {address}, and this cluster's head is {profile.head.cluster_address}:{profile.ray.port}.",
        why="vLLM would join another Ray cluster than the one the cockpit starts, or wait for it without an end.",
        fix=(Fix("profile  - RAY_ADDRESS", {"unset": ["serve.env.RAY_ADDRESS"]}),),
        place=profile.place("serve", "env", "RAY_ADDRESS"),
    )


def _hidden_gpus(profile: Profile) -> Problem | None:
    for where, env in environments(profile):
        if env.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
            return Problem(
                "CUDA_VISIBLE_DEVICES",
                Severity.WARNING,
                "CUDA_VISIBLE_DEVICES hides every GPU.",
                why="vLLM finds no GPU then, and ends, or starts on the CPU where it is built for that.",
                fix=(_without(where, "CUDA_VISIBLE_DEVICES"),),
                place=profile.place(*where, "CUDA_VISIBLE_DEVICES"),
            )
    return None


def _without(where: tuple[str | int, ...], name: str) -> Fix:
    """The change that takes a variable out; among the hosts it can't be made by itself."""
    change = None if where[0] == "hosts" else {"unset": [".".join(map(str, (*where, name)))]}
    return Fix(f"profile  - {name}", change)
