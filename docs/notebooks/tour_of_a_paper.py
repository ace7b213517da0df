# %% [markdown]
# # A tour of one paper
#
# *Training Dynamics of In-Context Learning in Linear Attention* (Zhang, Singh, Latham, Saxe, 2025) studies a small
# attention layer that learns to solve linear regression from the examples in its context. Started from small weights,
# it does not learn gradually. The loss rests on a plateau, drops, rests again: one drop for each eigenvector of the
# tokens' covariance. This page predicts these stages, integrates them, trains them, and asks which of the paper's
# claims hold.

# %%
import matplotlib.pyplot as plt
import numpy as np

import saddlescope as ss

# %% [markdown]
# ## What theory says
#
# A *system* is one model of a paper with all of its parameters. `saddlescope list linear_icl` explains each of them.

# %%
system = ss.system("linear_icl", init_scale=1e-3)
prediction = ss.predict(system, seed=0)
prediction

# %% [markdown]
# The prediction knows only the initial weights. It crosses each plateau by one scalar equation per head, so a start
# that is a million times smaller costs about the same:

# %%
ss.predict(ss.system("linear_icl", init_scale=1e-9)).to_dataframe()

# %% [markdown]
# ## Theory, flow and training side by side
#
# `compare` adds the gradient flow (the differential equation, reduced exactly to the numbers that matter) and gradient
# descent on the network itself.

# %%
comparison = ss.compare(system)
comparison

# %%
comparison.plot()
plt.show()

# %% [markdown]
# ## What is learned at each drop
#
# A trajectory is an `xarray.Dataset`. Its dimensions have coordinates and its variables have descriptions, so that
# xarray's own pictures are labelled.

# %%
trajectory = comparison.runs["flow"].trajectory
trajectory["gain"].attrs

# %%
trajectory["gain"].isel(time=slice(1, None)).plot.line(x="time", xscale="log")
plt.show()

# %% [markdown]
# Each eigenvector is learned in one go, the one with the largest eigenvalue first.
#
# ## How the start decides the times
#
# Paper and code agree that a smaller start means longer plateaus. How much longer? The time of the first drop over the
# initial scale, for ten starts each:

# %%
scales = np.geomspace(1e-5, 1e-2, 4)
first = [
    [ss.predict(ss.system("linear_icl", init_scale=scale), seed).times[0] for seed in range(10)] for scale in scales
]
low, middle, high = np.quantile(first, [0.1, 0.5, 0.9], axis=1)
plt.fill_between(scales, low, high, alpha=0.25, label="10 to 90% of the starts")
plt.loglog(scales, middle, "o-", label="median")
plt.xlabel("initial scale")
plt.ylabel("time of the first drop")
plt.legend()
plt.show()
print(f"slope {np.polyfit(np.log(scales), np.log(middle), 1)[0]:.3f}")

# %% [markdown]
# The time grows as one over the initial scale: of a head, value and key times query grow together, and the product of
# three small numbers leaves zero algebraically, not exponentially.
#
# ## Which claims hold here
#
# `judge` takes every claim of the paper that one flow can decide, at *your* parameters. The value must be on the right
# side of its bound; what a claim does not speak about is undecided, with the reason.

# %%
verdicts = ss.judge(system)
verdicts

# %%
verdicts[2]

# %% [markdown]
# `saddlescope reproduce linear_icl` judges all claims by the paper's own experiments, draws the figures, and writes a
# page. What the paper's print got wrong is listed by `saddlescope errata linear_icl`.
