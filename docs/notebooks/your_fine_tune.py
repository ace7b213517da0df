# %% [markdown]
# # How low-rank was your fine-tune?
#
# A small transformer learns a task, then is fine-tuned on another. How many directions did the fine-tune change, in
# which heads, and which LoRA would have been enough? Here everything happens in memory; `saddlescope diff BASE TUNED`
# does the same with two folders.

# %%
import copy
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import saddlescope as ss

torch.manual_seed(0)
torch.set_num_threads(1)
WORDS, LENGTH, WIDTH, HEADS = 32, 24, 64, 4

# %% [markdown]
# ## A model and two tasks
#
# The base learns to repeat: the second half of a sequence is its first half. The fine-tune shifts what is repeated by
# one word.


# %%
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.position = torch.nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.read = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
        return self.read(self.layers(self.embed(words) + self.position, mask=mask))


def batch(shift):
    half = torch.randint(WORDS, (64, LENGTH // 2))
    return torch.cat([half, (half + shift) % WORDS], 1)


def train(model, shift, steps, watch=None):
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(1, steps + 1):
        words = batch(shift)
        guess = model(words)[:, LENGTH // 2 - 1 : -1]
        loss = torch.nn.functional.cross_entropy(guess.reshape(-1, WORDS), words[:, LENGTH // 2 :].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if watch is not None:
            watch.step(step, loss=loss)
    return float(loss.detach())


base = Model()
print(f"loss of the base after training: {train(base, 0, 600):.3f}")

# %% [markdown]
# ## The fine-tune, watched
#
# `Watch` measures, beside the training, how far each head has moved from its start and in how many directions.

# %%
tuned = copy.deepcopy(base)
folder = Path(tempfile.mkdtemp())
with ss.Watch(tuned, every=20, folder=folder / "watched") as watch:
    print(f"loss of the fine-tune: {train(tuned, 1, 200, watch):.3f}")
watch

# %% [markdown]
# ## What changed
#
# One row for each matrix. *Rank above floor* counts the directions that rounding of the stored numbers cannot explain;
# *stable rank* says how many of them carry the change.

# %%
change = ss.diff(base, tuned)
change

# %%
change.plot()
plt.show()

# %% [markdown]
# ## The LoRA that would have been enough
#
# By energy: the ranks that hold 90% of the squared change. Energy is not function: whether the model needs them is for
# a test on your task to say.

# %%
advice = change.advise(energy=0.9)
advice

# %%
adapter = change.extract(folder / "adapter", energy=0.9)
adapter

# %% [markdown]
# All of it as a page, with the spectrum of every matrix and a map of the heads:

# %%
change.report(folder / "change.html")
print((folder / "change.html").stat().st_size // 1024, "KB")
