"""An adapter that PEFT has saved."""

import peft
import transformers

import saddlescope as ss

config = transformers.GPT2Config(
    n_layer=2, n_embd=16, n_head=2, vocab_size=16, n_positions=8, bos_token_id=0, eos_token_id=0
)
model = transformers.GPT2LMHeadModel(config)
lora = peft.LoraConfig(r=2, init_lora_weights=False, fan_in_fan_out=True, target_modules=["c_attn"])
peft.get_peft_model(model, lora).save_pretrained("lora")  # pyright: ignore[reportArgumentType]
print([module.rank_above_floor for module in ss.diff("lora").modules])
