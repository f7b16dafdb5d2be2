"""The lighteval tasks of the log fixtures, for --custom-tasks: the items of data/twenty (one file, the split test)."""

import numpy as np
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import LoglikelihoodAcc
from lighteval.metrics.normalizations import LogProbCharNorm
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

ACC_NORM = SampleLevelMetric(
    metric_name="acc_norm",
    sample_level_fn=LoglikelihoodAcc(logprob_normalization=LogProbCharNorm()),
    category=SamplingMethod.LOGPROBS,
    corpus_level_fn=np.mean,
    higher_is_better=True,
)


def letters(row: dict, task_name: str) -> Doc:
    names = "ABCDE"[: len(row["choices"])]
    listed = "\n".join(f"{name}. {choice}" for name, choice in zip(names, row["choices"], strict=True))
    query = f"Question: {row['question']}\n{listed}\nAnswer:"
    return Doc(task_name=task_name, query=query, choices=[f" {name}" for name in names], gold_index=row["answer_index"])


def texts(row: dict, task_name: str) -> Doc:
    query = f"Question: {row['question']}\nAnswer:"
    return Doc(task_name=task_name, query=query, choices=[f" {choice}" for choice in row["choices"]], gold_index=row["answer_index"])


def written(row: dict, task_name: str) -> Doc:
    query = f"Question: {row['question']}\nAnswer:"
    return Doc(task_name=task_name, query=query, choices=[row["choices"][row["answer_index"]]], gold_index=0)


def config(name: str, prompt, metrics: list) -> LightevalTaskConfig:
    return LightevalTaskConfig(
        name=name,
        prompt_function=prompt,
        hf_repo="data/twenty",
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        metrics=metrics,
        generation_size=8,
        stop_sequence=["\n"],
    )


TASKS_TABLE = [
    config("demo_letters", letters, [Metrics.loglikelihood_acc]),
    config("demo_text", texts, [Metrics.loglikelihood_acc, ACC_NORM]),
    config("demo_gen", written, [Metrics.exact_match]),
]
