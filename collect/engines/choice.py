"""Which engine runs the models. A value that can be sent to other machines; what an engine needs is imported where it runs."""

from dataclasses import dataclass

from catalog.errors import CatalogError
from collect.engines import Engine
from collect.models import Located


@dataclass(frozen=True)
class EngineChoice:
    """How to make an engine for a model: torch is imported when the first is made, after items and models were found sound."""

    name: str = "transformers"
    device: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False

    def __call__(self, located: Located) -> Engine:
        """The engine, its weights not loaded yet.

        Raises:
            CatalogError: What it needs is not installed.
        """
        try:
            from collect.device import place

            if self.name == "vllm":
                from collect.engines.vllm import VllmEngine, hardware_of

                hardware = hardware_of(self.device)
                dtype = self.dtype or ("float32" if hardware.startswith("cpu") else "bfloat16")
                return VllmEngine(located, dtype, hardware, self.trust_remote_code)
            from collect.engines.transformers import TransformersEngine
        except ModuleNotFoundError as error:
            raise CatalogError(
                f"collect run needs {error.name}, which is not installed: pip install 'forgetting-catalog[collect]'"
            ) from error
        return TransformersEngine(located, place(self.device, self.dtype), self.trust_remote_code)
