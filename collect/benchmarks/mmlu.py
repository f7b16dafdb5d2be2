"""MMLU: 57 subjects, four options each, the test split.

Hub id: cais/mmlu. Revision: as inspect-evals 0.28.0 pins it. Licence: MIT. Paper: arXiv 2009.03300. Rows:
question, subject, choices (list), answer (0 to 3); the five of a subject's dev split are its solved examples. 27 groups of rows
are exact duplicates: each stays an item of its own.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, listed, number

SUBJECTS = {
    "Logic": """
        logical_fallacies""",
    "Knowledge/QA": """
        global_facts miscellaneous""",
    "Liberal Arts": """
        high_school_european_history high_school_geography high_school_government_and_politics high_school_macroeconomics
        high_school_microeconomics high_school_psychology high_school_us_history high_school_world_history international_law
        management philosophy prehistory professional_law professional_psychology public_relations security_studies sociology
        us_foreign_policy world_religions""",
    "Math": """
        abstract_algebra college_mathematics econometrics elementary_mathematics formal_logic high_school_mathematics
        high_school_statistics""",
    "Safety/Truth": """
        business_ethics jurisprudence moral_disputes moral_scenarios""",
    "Science/Tech": """
        anatomy astronomy clinical_knowledge college_biology college_chemistry college_computer_science college_medicine
        college_physics computer_security conceptual_physics electrical_engineering high_school_biology high_school_chemistry
        high_school_computer_science high_school_physics human_aging human_sexuality machine_learning marketing
        medical_genetics nutrition professional_accounting professional_medicine virology""",
}

MMLU = Benchmark(
    name="mmlu",
    hub="cais/mmlu",
    revision="c30699e8356da336a370243923dbaf21066bb9fe",
    licence="MIT",
    paper="arXiv 2009.03300",
    columns=Columns("{question}", listed("choices"), number("answer")),
    tasks=tuple(Task(subject, category, (subject,)) for category, subjects in SUBJECTS.items() for subject in subjects.split()),
    examples_split="dev",
)
