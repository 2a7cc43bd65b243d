"""What NVIDIA's tools print: resources of kernels, disassembly, PTX."""

from __future__ import annotations

from auditor.native.triton.machine_code import Unreadable, instructions, resources, threads

WORDS = (b"Function : k\n", b" REG:32 STACK:0 SHARED:1024 LOCAL:0", b"ptxas info    : Used 40 registers", b"Function k:\n", b".text.k:", b"/*0000*/ ", b"HMMA.16816.F32 R0 ;", b".maxntid 256, 1, 1", b".reqntid ", b"\n", b"99999999999999999999")  # fmt: skip
SEEDS = (
    b"Fatbin elf code:\n================\narch = sm_120\n Function k:\n  REG:40 STACK:8 SHARED:1024 LOCAL:0 CONSTANT[0]:900 TEXTURE:0\n",
    b'\t.headerflags\t@"EF_CUDA_SM120"\n//--------------------- .text.k --------------------------\n.section .text.k\n.text.k:\n        /*0000*/                   HMMA.16816.F32 R4, R0, R2, R4 ;\n',
    b".version 8.7\n.target sm_120a\n.visible .entry k(.param .u64 p)\n.maxntid 256, 1, 1\n{\n mma.sync.aligned.m16n8k16 x;\n ret;\n}\n",
)


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for read in (
        lambda: resources(text),
        lambda: resources(text, "k"),
        lambda: instructions(text, text, "k"),
        lambda: threads(text),
    ):
        try:
            read()
        except Unreadable:
            continue
