"""Base of everything that is trained: its network, and the networks of its weight files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from common.errors import InputError
from methods.learned.weights import Card, read_card, read_tensors


class Trained:
    """Base of classes with a network that `bench.py train` trains; a subclass names it by `network_type`.

    Class attributes a subclass sets:
        trained: the name under which it is trained, stored on the cards of its weights.
        size: the fields of the network's configuration that differ from its defaults.
    """

    trained: ClassVar[str] = ""
    size: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def network_type(cls) -> Any:
        """Return the class of the network, a `Network`; its attribute `config_type` is a dataclass.

        The attribute `CHOICES` of a configuration class, if it has one, lists the permitted values of fields.
        """
        raise NotImplementedError

    @classmethod
    def network(cls, **config: Any) -> Any:
        """Build a freshly initialised network; `config` overrides fields of its configuration."""
        network = cls.network_type()
        return network(network.config_type(**{**cls.size, **config}))

    @classmethod
    def load(cls, file: Path) -> Any:
        """Load the network of a weight file, with the configuration on the file's card.

        Raises:
            InputError: the file is not safetensors, belongs to another method, or its card and its tensors disagree.
        """
        net = cls.network(**cls.checked_config(file, read_card(file)))
        net.load_state_dict(read_tensors(file, net.state_dict()))
        return net

    @classmethod
    def checked_config(cls, file: Path, card: Card) -> dict[str, Any]:
        """Return the configuration on a card.

        Raises:
            InputError: the card is of another method, or has an unknown field or value.
        """
        config_type = cls.network_type().config_type
        if card.method != cls.trained:
            raise InputError(
                f"{file}: field 'method' is '{card.method}', not '{cls.trained}'; give weights of {cls.trained}"
            )
        unknown = sorted(card.config.keys() - config_type.__dataclass_fields__.keys())
        if unknown:
            raise InputError(f"{file}: field 'config.{unknown[0]}' is unknown; train it again with this version")
        for name, choices in getattr(config_type, "CHOICES", {}).items():
            if name in card.config and card.config[name] not in choices:
                raise InputError(f"{file}: field 'config.{name}' is '{card.config[name]}', not {' or '.join(choices)}")
        return {name: tuple(v) if isinstance(v, list) else v for name, v in card.config.items()}
