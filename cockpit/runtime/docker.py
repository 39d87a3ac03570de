"""vLLM in an image: one container of ours a host, found by its label and never by its name."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.command import KILL_AFTER, Command, script
from cockpit.model.profile import EMPTY, DockerRuntime, HostSpec, Profile
from cockpit.runtime import containers
from cockpit.runtime.prelude import (
    CONTAINER_STATE,
    NO_ENVIRONMENT,
    exports,
    heredoc,
    runtime_env,
    state_folder,
)


class DockerEnvironment:
    """Runs scripts in the cluster's container on the host, and starts and removes that container."""

    def __init__(self, profile: Profile, spec: DockerRuntime) -> None:
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
        """``text`` in the container; status 97 where no container of ours runs.

        ``timeout`` stands inside too: a ``docker exec`` that is given up on leaves its process running.
        """
        word, body = heredoc(self._inside(host, env) + text)
        inner = f"timeout --kill-after={KILL_AFTER:g} {limit:g} sh -s"
        find = containers.find(self._profile, NO_ENVIRONMENT)
        return script(
            host.name,
            f'{find}exec docker exec -i "$CONTAINER" {inner} {word}\n{body}',
            why,
            secrets=secrets,
            limit=limit,
        )

    def host_script(
        self,
        host: HostSpec,
        text: str,
        why: str,
        *,
        secrets: tuple[str, ...] = (),
        limit: float = 30.0,
    ) -> Command:
        """``text`` on the host, outside the container."""
        return script(host.name, state_folder(self._profile) + text, why, secrets=secrets, limit=limit)

    def image_script(
        self,
        host: HostSpec,
        text: str,
        why: str,
        *,
        env: Mapping[str, str] = EMPTY,
        secrets: tuple[str, ...] = (),
        limit: float = 60.0,
    ) -> Command:
        """``text`` in a throw-away container of the image, with the same mounts, flags and environment, but
        without the state folder: for questions to the image before our container runs."""
        word, body = heredoc(self._inside(host, env) + text)
        return self.host_script(
            host,
            f"{containers.mount_checks(self._spec)}"
            f'exec docker run --rm -i {containers.run_words(self._spec)} --entrypoint timeout "$IMAGE" '
            f"--kill-after={KILL_AFTER:g} {limit:g} sh -s {word}\n{body}",
            why,
            secrets=secrets,
            limit=limit,
        )

    def container_start(self, host: HostSpec) -> Command:
        """Start the cluster's container; does nothing where it runs. Prints its id.

        A container of ours that has ended is removed and started anew. Refused, with nothing touched, where
        a container that isn't ours has the name, or ours was started from other arguments or another image.
        """
        text = containers.start_text(self._profile, self._spec)
        return self.host_script(host, text, "start the cluster's container", limit=60)

    def container_state(self, host: HostSpec) -> Command:
        """Look at the cluster's container; ``containers.parse_container`` reads the answer."""
        text = containers.state_text(self._profile, self._spec)
        return self.host_script(host, text, "look for the cluster's container", limit=20)

    def container_remove(self, host: HostSpec) -> Command:
        """Remove every container with the cluster's label, and nothing else; fails if one is left."""
        text = containers.remove_text(self._profile)
        return self.host_script(host, text, "remove the cluster's container", limit=60)

    def _inside(self, host: HostSpec, env: Mapping[str, str]) -> str:
        return f"export STATE={CONTAINER_STATE}\n" + exports(runtime_env(self._spec, host, env))
