"""Everyday objects in a picture: where they are, and what a picture as a whole shows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.inference_worker.engines.local.reference.words import plural
from antiphon.inference_worker.engines.local.sight.files import (
    CLASSIFIER,
    DETECTOR,
    class_names,
    load_network,
)

NAMES = (
    "", "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat",
    "traffic light", "fire hydrant", "", "stop sign", "parking meter", "bench", "bird", "cat", "dog",
    "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "", "backpack", "umbrella", "", "",
    "handbag", "tie", "suitcase", "frisbee", "pair of skis", "snowboard", "ball", "kite",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle", "",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange",
    "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "plant", "bed", "",
    "table", "", "", "toilet", "", "TV", "laptop", "mouse", "remote control", "keyboard", "cell phone",
    "microwave", "oven", "toaster", "sink", "refrigerator", "", "book", "clock", "vase",
    "pair of scissors", "teddy bear", "hair dryer", "toothbrush",
)  # fmt: skip
"""What the detector finds, by its numbers; it was trained with the 80 classes of COCO."""

_SYNONYMS = {
    "phone": "cell phone", "mobile phone": "cell phone", "smartphone": "cell phone", "mobile": "cell phone",
    "sofa": "couch", "bike": "bicycle", "motorbike": "motorcycle", "moped": "motorcycle",
    "plane": "airplane", "aeroplane": "airplane", "aircraft": "airplane", "television": "TV", "tv": "TV",
    "monitor": "TV", "screen": "TV", "mug": "cup", "coffee cup": "cup", "glass": "wine glass",
    "fridge": "refrigerator", "remote": "remote control", "bag": "handbag", "desk": "table",
    "flower": "plant", "potted plant": "plant", "computer": "laptop", "notebook": "laptop",
    "human being": "person", "somebody": "person", "someone": "person", "anybody": "person",
    "anyone": "person", "face": "person", "lorry": "truck", "scissors": "pair of scissors",
    "football": "ball", "animal": "animal", "vehicle": "vehicle", "fruit": "fruit", "me": "person",
    "doughnut": "donut", "teddy": "teddy bear", "kitten": "cat", "puppy": "dog", "automobile": "car",
    "man": "person", "woman": "person", "child": "person", "human": "person",
}  # fmt: skip
_GROUPS = {
    "animal": frozenset(
        ["bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe"]
    ),
    "vehicle": frozenset(
        ["bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat"]
    ),
    "fruit": frozenset(["banana", "apple", "orange"]),
}
_BY_WORD = {name.lower(): name for name in (*filter(None, NAMES), *_GROUPS)}
_SINGULAR = {plural(name): name for name in (*_BY_WORD.values(), *_SYNONYMS)} | {
    "persons": "person", "men": "man", "women": "woman", "children": "child", "glasses": "glass",
}  # fmt: skip

_DETECTOR_SIDE, _CLASSIFIER_SIDE = 300, 224
_MOST_CANDIDATES = 100
_SAME_PLACE = 0.5
_INSIDE = 0.8


class Box(NamedTuple):
    """A part of a picture, from 0 to 1."""

    top: float
    left: float
    bottom: float
    right: float

    @property
    def area(self) -> float:
        return max(0.0, self.bottom - self.top) * max(0.0, self.right - self.left)

    def shared_area(self, other: "Box") -> float:
        return Box(
            max(self.top, other.top),
            max(self.left, other.left),
            min(self.bottom, other.bottom),
            min(self.right, other.right),
        ).area


class Found(NamedTuple):
    """An object: what it is, how certain that is (0 to 1), and where."""

    name: str
    score: float
    box: Box


class Detector:
    """SSDLite with MobileNetV2, trained on COCO."""

    LEAST_SCORE = 0.45

    def __init__(self) -> None:
        self._session = load_network(DETECTOR)

    def find(self, picture: Image.Image) -> list[Found]:
        """The objects, the most certain one first."""
        boxes, scores = self._session.run(
            ["boxes", "scores"], {"picture": _pixels(picture, _DETECTOR_SIDE)}
        )
        kinds = scores[:, 1:].argmax(1) + 1
        best = scores[np.arange(len(scores)), kinds]
        order = np.argsort(-best)[:_MOST_CANDIDATES]
        found = [
            Found(NAMES[kinds[place]], float(best[place]), _box(boxes[place]))
            for place in order
            if best[place] >= self.LEAST_SCORE and NAMES[kinds[place]]
        ]
        return _without_repetitions(found)


class Classifier:
    """EfficientNet-Lite0, trained on ImageNet: names what fills a picture."""

    LEAST_SHARE = 0.5

    def __init__(self) -> None:
        self._session = load_network(CLASSIFIER)
        self._names = class_names()

    def name(self, picture: Image.Image) -> str:
        """Empty if it is not certain, or if the name is left out because it is seldom right.

        Classes with one name, such as breeds of dogs, add up.
        """
        [shares] = self._session.run(
            ["probabilities"], {"picture": _pixels(picture, _CLASSIFIER_SIDE)}
        )[0]
        best = self._names[int(shares.argmax())]
        same = [place for place in np.flatnonzero(shares > 0.01) if self._names[place] == best]
        return best if float(shares[same].sum()) >= self.LEAST_SHARE else ""


def names_of(kind: str | None) -> frozenset[str]:
    """What the detector calls objects of this kind."""
    if kind is None:
        return frozenset()
    return _GROUPS.get(kind, frozenset({kind}))


def kind_of(asked: str) -> str | None:
    """The object that a word means; None if the detector does not know it."""
    word = _SINGULAR.get(asked, asked)
    return _BY_WORD.get(_SYNONYMS.get(word, word).lower())


def _pixels(picture: Image.Image, side: int) -> NDArray[np.float32]:
    scaled = picture.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(scaled, dtype=np.float32)[np.newaxis]


def _box(corners: Sequence[float]) -> Box:
    return Box(*(float(min(1.0, max(0.0, value))) for value in corners))


def _without_repetitions(found: list[Found]) -> list[Found]:
    """The network finds one object several times, also as parts of it."""
    kept: list[Found] = []
    for one in found:
        if not any(one.name == other.name and _overlap(one.box, other.box) for other in kept):
            kept.append(one)
    return kept


def _overlap(first: Box, second: Box) -> bool:
    shared = first.shared_area(second)
    smaller = min(first.area, second.area)
    union = first.area + second.area - shared
    return shared > _SAME_PLACE * union or shared > _INSIDE * smaller
