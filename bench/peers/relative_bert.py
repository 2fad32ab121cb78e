"""BERT with distances as position_embedding_type "relative_key" and "relative_key_query" define them:
scores are (q . k + q . E[i - j] (+ k . E[i - j])) / sqrt(d), with a table E in each layer, and no position is
added to the embedding. Current versions of transformers no longer have it."""
import torch
import transformers as hf
from transformers.models.bert.modeling_bert import BertSelfAttention


class NoPositions(torch.nn.Module):
    def forward(self, ids):
        return torch.zeros(1)


class RelativeSelfAttention(BertSelfAttention):
    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        rows = 2 * config.max_position_embeddings - 1
        self.distance_embedding = torch.nn.Embedding(rows, self.attention_head_size)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        batch, n, _ = hidden_states.shape
        split = (batch, n, self.num_attention_heads, self.attention_head_size)
        q = self.query(hidden_states).view(split)
        k = self.key(hidden_states).view(split)
        at = torch.arange(n)
        rows = self.distance_embedding(at[:, None] - at + self.config.max_position_embeddings - 1)
        scores = torch.einsum("bihd,ijd->bhij", q, rows)
        if self.config.position_embedding_type == "relative_key_query":
            scores = scores + torch.einsum("bjhd,ijd->bhij", k, rows)
        scores = scores * self.scaling
        mask = scores if attention_mask is None else attention_mask + scores
        return super().forward(hidden_states, mask, past_key_values, **kwargs)


class RelativeBertForMaskedLM(hf.BertForMaskedLM):
    def __init__(self, config):
        config._attn_implementation = "eager"  # takes numbers as a mask
        super().__init__(config)
        self.bert.embeddings.position_embeddings = NoPositions()
        for i, layer in enumerate(self.bert.encoder.layer):
            layer.attention.self = RelativeSelfAttention(config, layer_idx=i)
        self.config.architectures = ["BertForMaskedLM"]
