"""Machine code of a wheel: what kernels it covers, levels, symbols."""

import numpy as np

from fastrank_eval._lib.jit import compilations, kernel


@kernel
def add_up(words, out):
    out[0] = 0
    for i in range(words.shape[0]):
        out[0] += words[i]


def test_kernel__of_words_at_any_byte__has_an_entry_point():
    content = np.arange(33, dtype=np.uint8)
    aligned = np.arange(5, dtype=np.uint64)
    windows = np.ndarray(25, np.uint64, content[1:], 0, (1,))
    out = np.zeros(1, np.uint64)
    for words in (windows, aligned, aligned[::2], windows, aligned):
        add_up(words, out)
        assert out[0] == words.sum()
    assert len(add_up._entries) == 3
    before = compilations.count
    add_up(np.ndarray(3, np.uint64, content[3:], 0, (1,)), out)
    assert compilations.count == before
