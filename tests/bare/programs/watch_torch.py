"""A Watch beside a plain loop, and a checkpoint as torch saves it, compared with the one at its start."""

import torch

import saddlescope as ss

torch.manual_seed(0)
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, batch_first=True), 2)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
torch.save(model.state_dict(), "start.pt")
with ss.Watch(model, every=2, heads=4, folder="watched") as watch:
    for step in range(1, 5):
        loss = (model(torch.randn(8, 16, 32)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watch.step(step, loss=loss)
torch.save(model.state_dict(), "end.pt")
watch.report("watched.html")
print(dict(watch.trajectory.sizes), len(ss.diff("start.pt", "end.pt").modules), "matrices")
