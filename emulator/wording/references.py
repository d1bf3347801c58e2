"""What a paper should say of results: versions, references in BibTeX, and a sentence for the methods section.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from emulator.record.targets import Target
from emulator.results.results import Results, targets
from emulator.results.units import counted, joined
from scenarios.schema.entries import Entry
from scenarios.schema.known import algorithms
from scenarios.schema.task import OF_MAIN, Task


@dataclass(frozen=True)
class Paper:
    """A paper: its key, authors as BibTeX takes them, title, place and year, number on arXiv ("": not there), and kind
    of entry if it has a place."""

    key: str
    authors: str
    title: str
    place: str  # "": only on arXiv
    year: int
    arxiv: str = ""
    kind: str = "inproceedings"

    def bibtex(self) -> str:
        """Returns the entry for a file of references."""
        kind = self.kind if self.place else "misc"
        place = {"inproceedings": "booktitle", "misc": "howpublished"}[kind]
        fields = {"author": self.authors, "title": f"{{{self.title}}}", place: self.place, "year": str(self.year)}
        if self.arxiv:
            fields |= {"eprint": self.arxiv, "archiveprefix": "arXiv"}
        lines = [f"  {name} = {{{text}}}," for name, text in fields.items() if text]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


ADAPTIVE = Paper(
    "reddi2021adaptive",
    "Sashank J. Reddi and Zachary Charles and Manzil Zaheer and Zachary Garrett and Keith Rush and Jakub "
    "Kone{\\v{c}}n{\\'y} and Sanjiv Kumar and H. Brendan McMahan",
    "Adaptive Federated Optimization",
    "International Conference on Learning Representations (ICLR)",
    2021,
    "2003.00295",
)
UNBIASED = Paper(
    "yao2019unbiased",
    "Xin Yao and Tianchi Huang and Rui-Xiao Zhang and Ruiyu Li and Lifeng Sun",
    "Federated Learning with Unbiased Gradient Aggregation and Controllable Meta Updating",
    "",
    2019,
    "1910.08234",
)
PAPERS = {  # by algorithm
    "agentimportance": Paper(
        "kim2020agent",
        "Geeho Kim and Mijeong Kim and Minji Kim",
        "Overcoming Forgetting in Federated Learning via Importance From Agent",
        "Term project, Seoul National University",
        2020,
        kind="misc",
    ),
    "ca2fl": Paper(
        "wang2024tackling",
        "Yujia Wang and Yuanpu Cao and Jingcheng Wu and Ruoyu Chen and Jinghui Chen",
        "Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update Calibration",
        "International Conference on Learning Representations (ICLR)",
        2024,
    ),
    "continual": Paper("bian2018continual", "An Bian", "Knowledge Transfer for Continual Federated Learning", "", 2018),
    "ditto": Paper(
        "li2021ditto",
        "Tian Li and Shengyuan Hu and Ahmad Beirami and Virginia Smith",
        "Ditto: Fair and Robust Federated Learning Through Personalization",
        "International Conference on Machine Learning (ICML)",
        2021,
        "2012.04221",
    ),
    "fadas": Paper(
        "wang2024fadas",
        "Yujia Wang and Shiqiang Wang and Songtao Lu and Jinghui Chen",
        "{FADAS}: Towards Federated Adaptive Asynchronous Optimization",
        "International Conference on Machine Learning (ICML)",
        2024,
        "2407.18365",
    ),
    "fedadam": ADAPTIVE,
    "fedasync": Paper(
        "xie2019asynchronous",
        "Cong Xie and Sanmi Koyejo and Indranil Gupta",
        "Asynchronous Federated Optimization",
        "",
        2019,
        "1903.03934",
    ),
    "fedavg": Paper(
        "mcmahan2017communication",
        'H. Brendan McMahan and Eider Moore and Daniel Ramage and Seth Hampson and Blaise {Ag{\\"u}era y Arcas}',
        "Communication-Efficient Learning of Deep Networks from Decentralized Data",
        "International Conference on Artificial Intelligence and Statistics (AISTATS)",
        2017,
        "1602.05629",
    ),
    "fedavgm": Paper(
        "hsu2019measuring",
        "Tzu-Ming Harry Hsu and Hang Qi and Matthew Brown",
        "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
        "",
        2019,
        "1909.06335",
    ),
    "fedbuff": Paper(
        "nguyen2022buffered",
        "John Nguyen and Kshitiz Malik and Hongyuan Zhan and Ashkan Yousefpour and Michael Rabbat and Mani Malek and "
        "Dzmitry Huba",
        "Federated Learning with Buffered Asynchronous Aggregation",
        "International Conference on Artificial Intelligence and Statistics (AISTATS)",
        2022,
        "2106.06639",
    ),
    "fedcl": Paper(
        "yao2020continual",
        "Xin Yao and Lifeng Sun",
        "Continual Local Training for Better Initialization of Federated Models",
        "IEEE International Conference on Image Processing (ICIP)",
        2020,
        "2005.12657",
    ),
    "fedcurv": Paper(
        "shoham2019overcoming",
        "Neta Shoham and Tomer Avidor and Aviv Keren and Nadav Israel and Daniel Benditkis and Liron Mor-Yosef and "
        "Itai Zeitak",
        "Overcoming Forgetting in Federated Learning on Non-IID Data",
        "",
        2019,
        "1910.07796",
    ),
    "feddyn": Paper(
        "acar2021federated",
        "Durmus Alp Emre Acar and Yue Zhao and Ramon Matas Navarro and Matthew Mattina and Paul N. Whatmough and "
        "Venkatesh Saligrama",
        "Federated Learning Based on Dynamic Regularization",
        "International Conference on Learning Representations (ICLR)",
        2021,
        "2111.04263",
    ),
    "fedmeta": UNBIASED,
    "fednova": Paper(
        "wang2020tackling",
        "Jianyu Wang and Qinghua Liu and Hao Liang and Gauri Joshi and H. Vincent Poor",
        "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
        "Advances in Neural Information Processing Systems (NeurIPS)",
        2020,
        "2007.07481",
    ),
    "fedprox": Paper(
        "li2020heterogeneous",
        "Tian Li and Anit Kumar Sahu and Manzil Zaheer and Maziar Sanjabi and Ameet Talwalkar and Virginia Smith",
        "Federated Optimization in Heterogeneous Networks",
        "Conference on Machine Learning and Systems (MLSys)",
        2020,
        "1812.06127",
    ),
    "fedshare": Paper(
        "zhao2018noniid",
        "Yue Zhao and Meng Li and Liangzhen Lai and Naveen Suda and Damon Civin and Vikas Chandra",
        "Federated Learning with Non-IID Data",
        "",
        2018,
        "1806.00582",
    ),
    "fedyogi": ADAPTIVE,
    "scaffold": Paper(
        "karimireddy2020scaffold",
        "Sai Praneeth Karimireddy and Satyen Kale and Mehryar Mohri and Sashank J. Reddi and Sebastian U. Stich and "
        "Ananda Theertha Suresh",
        "{SCAFFOLD}: Stochastic Controlled Averaging for Federated Learning",
        "International Conference on Machine Learning (ICML)",
        2020,
        "1910.06378",
    ),
    "uga": UNBIASED,
}
ESTIMATES = {  # by the value of the option `importance` of fedcl and agentimportance
    "mas": Paper(
        "aljundi2018memory",
        "Rahaf Aljundi and Francesca Babiloni and Mohamed Elhoseiny and Marcus Rohrbach and Tinne Tuytelaars",
        "Memory Aware Synapses: Learning What (not) to Forget",
        "European Conference on Computer Vision (ECCV)",
        2018,
        "1711.09601",
    ),
    "si": Paper(
        "zenke2017continual",
        "Friedemann Zenke and Ben Poole and Surya Ganguli",
        "Continual Learning Through Synaptic Intelligence",
        "International Conference on Machine Learning (ICML)",
        2017,
        "1703.04200",
    ),
    "rwalk": Paper(
        "chaudhry2018riemannian",
        "Arslan Chaudhry and Puneet K. Dokania and Thalaiyasingam Ajanthan and Philip H. S. Torr",
        "Riemannian Walk for Incremental Learning: Understanding Forgetting and Intransigence",
        "European Conference on Computer Vision (ECCV)",
        2018,
        "1801.10112",
    ),
}


def cited(found: Results) -> list[str]:
    """Returns what a paper should say of these results, as paragraphs: a sentence for the methods section, versions,
    and the references in BibTeX."""
    known = dict.fromkeys(paper for entry in found.scenario.algorithms for paper in _papers(entry))
    own = [entry.name for entry in found.scenario.algorithms if entry.key not in algorithms()]
    lacking = [f"% {joined(own)}: not part of fedlapse; cite what your own code is based on."] if own else []
    return [_methods(found), _versions(found), *(each.bibtex() for each in known), *lacking, _software(found)]


def _papers(entry: Entry) -> Iterator[Paper]:
    if entry.key in PAPERS:
        yield PAPERS[entry.key]
    if (estimate := entry.options.get("importance")) in ESTIMATES:
        yield ESTIMATES[estimate]


def _methods(found: Results) -> str:
    of = found.scenario
    compared = joined([_with_papers(entry) for entry in of.algorithms])
    verb = "compared" if len(of.algorithms) > 1 else "ran"
    devices = (
        f"{counted(of.devices, 'emulated device')} ({joined(list(dict.fromkeys(each.profile for each in of.fleet)))})"
    )
    aims = joined([_goal(target, of.task) for target in targets(of)])
    until = f", and report the virtual time until {aims}" if aims else ""
    trained = f"{_latex(of.model.name)} on {_latex(of.data.set)} ({of.data.split.kind} split)"
    length = f"at most {counted(of.rounds.max, 'round')} with {counted(len(of.seeds), 'random seed')}"
    return (
        f"We {verb} {compared} with fedlapse {_version(found)} \\cite{{fedlapse}} on {devices}, training {trained} for "
        f"{length}{until}. Devices train with PyTorch, and a discrete-event virtual clock charges the time of every "
        f"FLOP and byte (network model {of.network_model})."
    )


def _goal(target: Target, task: Task) -> str:
    metric = f"{target.metric} {task.main}" if target.metric in OF_MAIN else f"test {target.metric}"
    held = f" in {target.hold} evaluated rounds in a row" if target.hold > 1 else ""
    return f"{_latex(metric)} {target.value:g}{held}" + (f" for {target.hold_s:g} s" if target.hold_s else "")


def _latex(name: str) -> str:
    """Returns a name with LaTeX's special characters escaped."""
    return re.sub(r"[_%&#$]", r"\\\g<0>", name)


def _with_papers(entry: Entry) -> str:
    keys = ",".join(paper.key for paper in _papers(entry))
    return f"{_latex(entry.name)} \\cite{{{keys}}}" if keys else _latex(entry.name)


def _version(found: Results) -> str:
    return str(found.host.get("versions", {}).get("fedlapse") or metadata.version("fedlapse"))


def _versions(found: Results) -> str:
    said = found.host.get("versions")
    told = ", ".join(f"{name} {number}" for name, number in said.items()) if said else "not recorded"
    digest = found.summary.get("digest")
    return "\n".join([f"Versions: {told}.", *([f"Digest of the records: {digest}."] if digest else [])])


def _software(found: Results) -> str:
    """Returns the entry for fedlapse itself, as CITATION.cff has it."""
    return "\n".join(
        [
            "@software{fedlapse,",
            "  author = {{The fedlapse maintainers}},",
            "  title = {fedlapse: wall-clock cost of federated learning on emulated edge devices},",
            f"  version = {{{_version(found)}}},",
            "}",
        ]
    )
