"""Lists the rows that ranks write in runs of any kind, by the names that they have in a rank's file."""

from typing import Any

from scalewise.records.examination import EXAMINATION_KINDS, ExaminationRow
from scalewise.records.inspection import (
    UTILISATION_KINDS,
    BusyRow,
    DeviceMemoryRow,
    GradientRow,
    InspectionRow,
    LayerRow,
    MemoryByLineRow,
    MemoryPartsRow,
    TransferRow,
    UtilisationRow,
)
from scalewise.records.parity import PARITY_KINDS, ParityRow
from scalewise.records.rehearsal import REHEARSAL_KINDS, RehearsalRow
from scalewise.records.rows import (
    EVERY_RUNS_KINDS,
    EndRow,
    ExposedRow,
    LevelRow,
    MemoryRow,
    ModelRow,
    ParametersRow,
    RootRow,
    StartRow,
    StepRow,
    TroubleRow,
)

Row = (
    StartRow
    | ModelRow
    | StepRow
    | MemoryRow
    | LevelRow
    | ExposedRow
    | TroubleRow
    | EndRow
    | InspectionRow
    | ExaminationRow
    | RehearsalRow
    | ParametersRow
    | RootRow
    | UtilisationRow
    | ParityRow
)

ROW_KINDS: dict[str, type[Any]] = {
    **EVERY_RUNS_KINDS,
    "layer": LayerRow,
    "transfer": TransferRow,
    "busy": BusyRow,
    "device_memory": DeviceMemoryRow,
    "memory_parts": MemoryPartsRow,
    "gradient": GradientRow,
    "memory_by_line": MemoryByLineRow,
    **EXAMINATION_KINDS,
    **REHEARSAL_KINDS,
    **UTILISATION_KINDS,
    **PARITY_KINDS,
}
