"""LightningCallback in a Lightning Trainer."""

import lightning
import torch

import saddlescope as ss


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, batch_first=True), 1)

    def training_step(self, batch, batch_idx):
        return (self.inner(batch) - 1).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


callback = ss.LightningCallback(every=2, heads=2)
trainer = lightning.Trainer(
    max_steps=4,
    callbacks=[callback],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    accelerator="cpu",
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(16, 8, 16)))  # pyright: ignore[reportArgumentType]
assert callback.watch is not None
print(dict(callback.watch.trajectory.sizes))
