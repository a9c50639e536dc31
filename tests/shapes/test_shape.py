"""Shapes: figures are read by their paths and functions, and typed by what they read."""

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pytest
from msgspec import UNSET

from capplan.core.numbers import Interval
from capplan.report.sections import shape_columns, shape_data
from capplan.shapes import stub
from capplan.shapes.codec import to_plain
from capplan.shapes.plan import PLAN
from capplan.shapes.registry import shapes
from capplan.shapes.shape import CSV, Shape, column, figure, reads


@dataclass(frozen=True)
class Maker:
    name: str


@dataclass(frozen=True)
class Car:
    wheels: int
    maker: Maker | None
    parts: tuple[Maker, ...]
    mass_bytes: Interval

    @property
    def doubled(self) -> int:
        return 2 * self.wheels


MAKER = Shape("MakerDocument", Maker, "Who makes it.", (figure("class", "name", show=CSV),))


def whole_name(_car: Car, whole: str) -> str:
    return whole


CAR = Shape(
    "CarDocument",
    Car,
    "A car.",
    (
        figure("wheels", meaning="how many", show=column("wheels", "{:,}".format, csv="expected")),
        figure("doubled"),
        figure("fleet", whole_name, show=CSV.alone()),
        figure("maker", MAKER, default=None),
        figure("maker_name", "maker.name", default=UNSET),
        figure("parts", MAKER, default=()),
        figure("mass_bytes", show=column("mass", lambda size: f"{size:g} B", csv="low expected")),
    ),
)
FORD = Car(wheels=4, maker=Maker("Ford"), parts=(Maker("Bosch"),), mass_bytes=Interval(low=1.4, expected=2.6, high=3.0))
NOBODY = Car(wheels=3, maker=None, parts=(), mass_bytes=Interval.exact(2.0))


def test_a_document_holds_what_figures_read_and_leaves_out_what_is_unset() -> None:
    assert to_plain(CAR.document(FORD, "mine")) == {
        "wheels": 4, "doubled": 8, "maker": {"class": "Ford"}, "maker_name": "Ford", "parts": ({"class": "Bosch"},),
        "mass_bytes": {"low": 1.4, "expected": 2.6, "high": 3.0},
    }  # fmt: skip
    plain = to_plain(CAR.document(NOBODY, "mine"))
    assert plain["maker"] is None
    assert "maker_name" not in plain


def test_a_written_document_is_read_again_and_older_ones_have_defaults() -> None:
    document = CAR.document(FORD, "mine")
    assert CAR.read(json.loads(json.dumps(to_plain(document))), where="car.json", noun="car") == document
    older = {"wheels": 4, "doubled": 8, "mass_bytes": {"low": 1, "expected": 1, "high": 1}}
    assert CAR.read(older, where="car.json", noun="car").parts == ()


def test_an_answer_that_another_holds_is_read_as_its_own() -> None:
    first = figure("schema_version", reads(int, lambda _: 1))
    part = Shape(
        "PartOfLot", Maker, "A part.", (figure("lot", reads(str, lambda maker, lot: f"{maker.name} of {lot.wheels}")),)
    )
    lot = Shape("LotDocument", Car, "A lot.", (first, figure("parts", part)))
    fleet = Shape("LotsDocument", Sequence, "Lots.", (first, figure("lots", lot.at(reads(tuple[Car, ...], tuple)))))
    assert to_plain(fleet.document([FORD]))["lots"] == ({"schema_version": 1, "parts": ({"lot": "Bosch of 4"},)},)


def test_types_of_figures_follow_from_what_they_read() -> None:
    fields = dict(msgspec.json.schema(CAR.struct)["$defs"]["CarDocument"]["properties"])
    assert fields["doubled"] == {"type": "integer"}
    assert fields["wheels"] == {"description": "how many", "type": "integer"}
    assert fields["maker_name"] == {"type": "string"}


def test_a_path_that_leads_nowhere_is_an_error_that_names_the_figure() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.doors: .*no 'doors'"):
        _ = Shape("Wrong", Car, "", (figure("doors"),)).struct


def test_columns_are_flat_and_bytes_are_whole() -> None:
    rows = [(FORD, "mine"), (NOBODY, "ours")]
    columns = shape_data(CAR, rows)
    assert [one.name for one in columns] == ["wheels", "fleet", "class", "mass_low_bytes", "mass_bytes"]
    assert [[one.value(row) for one in columns] for row in rows] == [[4, "mine", "Ford", 1, 3], [3, "ours", None, 2, 2]]
    assert CAR.flat(FORD, "mine") == {
        "wheels": 4, "doubled": 8, "fleet": "mine", "class": "Ford", "maker_name": "Ford",
        "mass_low_bytes": 1, "mass_bytes": 3, "mass_high_bytes": 3,
    }  # fmt: skip


def test_tables_for_people_have_the_titled_figures() -> None:
    columns = shape_columns(CAR, [FORD])
    assert [(one.title, one.cell(FORD)) for one in columns] == [("wheels", "4"), ("mass", "2.6 B")]


def test_all_shapes_are_whole_and_their_types_are_those_that_the_stub_states() -> None:
    made = shapes()
    assert len(made) >= 12
    for name, shape in made.items():
        assert shape.struct.__name__ == name
    assert stub.PATH.read_text(encoding="utf-8") == stub.stub(), "run python -m capplan.shapes.stub"


def test_documents_can_be_pickled() -> None:
    kind = shapes()["PlannedMemory"].struct
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert PLAN.struct.__module__ == "capplan.shapes.types"
