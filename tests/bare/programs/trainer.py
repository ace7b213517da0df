"""SaddleCallback in a Trainer, and the spectra of what it changed."""

import torch
import transformers

import saddlescope as ss

torch.manual_seed(0)
config = transformers.GPT2Config(
    n_layer=2, n_embd=16, n_head=2, vocab_size=16, n_positions=8, bos_token_id=0, eos_token_id=0
)
model = transformers.GPT2LMHeadModel(config)
sentences = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(16)]
settings = transformers.TrainingArguments(
    "trained", max_steps=4, per_device_train_batch_size=4, report_to=[], use_cpu=True, disable_tqdm=True
)
callback = ss.SaddleCallback(every=2)
model.save_pretrained("at_start")
transformers.Trainer(model, settings, train_dataset=sentences, callbacks=[callback]).train()
model.save_pretrained("at_end")
assert callback.watch is not None
print(dict(callback.watch.trajectory.sizes), ss.diff("at_start", "at_end").family)
