"""How Hydra reads files here: as UTF-8, also after a byte order mark or a license."""

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigLoadError, ConfigResult
from omegaconf import OmegaConf

from sweeps.config.files import HEADER


class TextFiles(FileConfigSource):
    """Hydra's source of files. It also finds the package after a byte order mark or a license."""

    @staticmethod
    def scheme() -> str:
        return "text"

    def load_config(self, config_path: str) -> ConfigResult:
        file = Path(self.path, self._normalize_file_name(config_path))
        if not file.exists():
            raise ConfigLoadError(f"Config not found: {file}")
        header = HEADER.match(file.read_text("utf-8-sig"))
        with file.open(encoding="utf-8-sig") as text:
            content = OmegaConf.load(text)
        packages = {"package": header["package"] if header else None}
        return ConfigResult(self.provider, f"{self.scheme()}://{self.path}", content, packages)
