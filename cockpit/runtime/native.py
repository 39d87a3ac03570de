"""vLLM in a virtual environment on the host itself."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.command import Command, script
from cockpit.model.profile import EMPTY, HostSpec, NativeRuntime, Profile
from cockpit.runtime.prelude import NO_ENVIRONMENT, exports, home_path, runtime_env, state_folder


class NativeEnvironment:
    """Runs scripts on the host with the venv's ``bin`` first on PATH."""

    def __init__(self, profile: Profile, spec: NativeRuntime) -> None:
        self._profile = profile
        self._spec = spec

    def script(
        self,
        host: HostSpec,
        text: str,
        why: str,
        *,
        env: Mapping[str, str] = EMPTY,
        secrets: tuple[str, ...] = (),
        limit: float = 30.0,
    ) -> Command:
        """``text`` in the environment; status 97 where the venv has no python."""
        return script(host.name, self._prelude(host, env) + text, why, secrets=secrets, limit=limit)

    def host_script(
        self,
        host: HostSpec,
        text: str,
        why: str,
        *,
        secrets: tuple[str, ...] = (),
        limit: float = 30.0,
    ) -> Command:
        """``text`` on the host, without the environment."""
        return script(host.name, state_folder(self._profile) + text, why, secrets=secrets, limit=limit)

    def _prelude(self, host: HostSpec, env: Mapping[str, str]) -> str:
        return (
            state_folder(self._profile)
            + f"VENV={home_path(self._spec.venv)}\n"
            + 'if [ ! -x "$VENV/bin/python" ]; then\n'
            + '  echo "There is no virtual environment at $VENV: it has no bin/python." >&2\n'
            + f"  exit {NO_ENVIRONMENT}\n"
            + "fi\n"
            + exports(runtime_env(self._spec, host, env))
            + 'PATH="$VENV/bin:$PATH"\nVIRTUAL_ENV="$VENV"\nexport PATH VIRTUAL_ENV\n'
        )
