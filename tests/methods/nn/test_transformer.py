"""Attention and the Transformer block."""

from __future__ import annotations

import torch

from methods.nn.transformer import Attention, Transformer


def test_attention_is_torch_s_and_the_same_in_training() -> None:
    ours, theirs = Attention(16, 4), torch.nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj = ours.out  # type: ignore[assignment]
    x, y = torch.randn(2, 9, 16), torch.randn(2, 13, 16)
    wanted = theirs(x, y, y)[0]
    for mode in (True, False):
        torch.testing.assert_close(ours.train(mode)(x, y), wanted)


def test_the_transformer_follows_the_order_of_one_cloud_and_not_that_of_the_other() -> None:
    block = Transformer(16, 4, 32).eval()
    x, y = torch.randn(1, 9, 16), torch.randn(1, 13, 16)
    order, other = torch.randperm(9), torch.randperm(13)
    torch.testing.assert_close(block(x[:, order], y[:, other]), block(x, y)[:, order], atol=1e-5, rtol=1e-4)
