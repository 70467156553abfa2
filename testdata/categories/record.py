"""python record.py CASE OUT: trains a small model on a GPU, records a snapshot, and writes down at some instants
which storages are what, as only the program itself knows. The files here are from torch 2.11 on an H200; of the
instants some were kept."""
import sys, os, json, time, gc, weakref, copy
import torch, torch.nn as nn, torch.nn.functional as F
case, out = sys.argv[1], sys.argv[2]
dev = "cuda:0"
torch.manual_seed(0)
boxes = weakref.WeakSet()
class Box:
    __slots__ = ("t", "__weakref__")
    def __init__(s, t): s.t = t
def pack(t):
    b = Box(t); boxes.add(b); return b
def unpack(b): return b.t
marks = []
def st(t):
    try:
        if hasattr(t, "to_local") : t = t.to_local()
        if not t.is_cuda: return None
        s = t.untyped_storage(); return s.data_ptr()
    except Exception: return None
def mark(label, models=(), opts=(), inputs=(), caches=(), others=()):
    seen = {}
    def put(cat, ts):
        for t in ts:
            p = st(t)
            if p: seen.setdefault(p, cat)
    for m in models: put("parameter", m.parameters()); put("buffer", m.buffers())
    for o in opts:
        for s in o.state.values(): put("optimizer", [v for v in s.values() if torch.is_tensor(v)])
    for m in models: put("gradient", [p.grad for p in m.parameters() if p.grad is not None])
    put("cache", caches); put("input", inputs); put("activation", [b.t for b in list(boxes)]); put("other", others)
    marks.append({"label": label, "time_ns": time.time_ns(), "storages": [[p, c] for p, c in seen.items()]})

class Block(nn.Module):
    def __init__(s, d, h):
        super().__init__(); s.h = h
        s.n1 = nn.LayerNorm(d); s.n2 = nn.LayerNorm(d); s.qkv = nn.Linear(d, 3*d); s.o = nn.Linear(d, d)
        s.up = nn.Linear(d, 4*d); s.down = nn.Linear(4*d, d)
    def forward(s, x):
        B, T, D = x.shape
        q, k, v = s.qkv(s.n1(x)).view(B, T, 3, s.h, D//s.h).permute(2, 0, 3, 1, 4)
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, D))
        return x + s.down(F.gelu(s.up(s.n2(x))))
class GPT(nn.Module):
    def __init__(s, L=4, d=256, h=4, V=5000, ckpt=None):
        super().__init__(); s.ckpt = ckpt
        s.emb = nn.Embedding(V, d); s.blocks = nn.ModuleList(Block(d, h) for _ in range(L))
        s.n = nn.LayerNorm(d); s.head = nn.Linear(d, V, bias=False)
    def forward(s, ids):
        x = s.emb(ids)
        for i, b in enumerate(s.blocks):
            x = torch.utils.checkpoint.checkpoint(b, x, use_reentrant=s.ckpt == "re") if s.ckpt else b(x)
            if usemid and i == len(s.blocks)//2 and x.requires_grad and midhook[0]: x.register_hook(midhook[0])
        return s.head(s.n(x))
midhook = [None]
usemid = case not in ("compiled", "compiled_opt", "compiled_infer")
def hooks(on=True): return torch.autograd.graph.saved_tensors_hooks(pack, unpack) if on else Null()
class Null:
    def __enter__(s): pass
    def __exit__(s, *a): pass

def rec(stacks="python", context="all", n=1000000):
    torch.cuda.memory._record_memory_history(enabled="all", context=context, stacks=stacks, max_entries=n)

def lm(m, make_opt, steps=4, accum=1, none=True, amp=None, scaler=None, clip=False, ann=None, saved=True, B=4, vary=True, start=None, extra=None):
    o = make_opt(m)
    for i in range(steps):
        if start is not None and i == start[0]: start[1]()
        cm = torch.profiler.record_function(ann % i) if ann else Null()
        with cm:
            T = 128 + 32*(i % 3) if vary else 128
            ids = torch.randint(0, 5000, (B, T), device=dev)
            def mid(g, i=i): mark(f"mid{i}", [m], [o], [ids])
            midhook[0] = mid
            with hooks(saved), (torch.autocast("cuda", amp) if amp else Null()):
                logits = m(ids); loss = F.cross_entropy(logits.view(-1, logits.size(-1)).float(), ids.view(-1))
            mark(f"fwd{i}", [m], [o], [ids], others=[logits, loss])
            (scaler.scale(loss) if scaler else loss).backward()
            mark(f"bwd{i}", [m], [o], [ids], others=[logits, loss])
            if (i + 1) % accum == 0:
                if scaler: scaler.unscale_(o)
                if clip: nn.utils.clip_grad_norm_(m.parameters(), 1.0)
                if scaler: scaler.step(o); scaler.update()
                else: o.step()
                mark(f"opt{i}", [m], [o], [ids], others=[logits, loss])
                o.zero_grad(set_to_none=none)
            if extra: extra(m, i)
            mark(f"end{i}", [m], [o], [ids], others=[logits, loss])
    return o
AdamW = lambda m: torch.optim.AdamW(m.parameters(), lr=1e-4)
SGD = lambda m: torch.optim.SGD(m.parameters(), lr=.1)
SGDm = lambda m: torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)

C = {}
def c(f): C[f.__name__] = f; return f
@c
def adamw_noann(): rec(); lm(GPT().to(dev), AdamW)
@c
def keepgrads(): rec(); lm(GPT().to(dev), AdamW, none=False, ann="train_step %d")
@c
def accum(): rec(); lm(GPT().to(dev), AdamW, steps=8, accum=4)
@c
def ckpt(): import torch.utils.checkpoint; rec(); lm(GPT(ckpt="non").to(dev), AdamW)
@c
def fp16(): rec(); lm(GPT().to(dev), AdamW, amp=torch.float16, scaler=torch.amp.GradScaler("cuda"), clip=True)
@c
def stacks_all(): rec("all"); lm(GPT().to(dev), AdamW)
@c
def nostacks(): rec(context=None); lm(GPT().to(dev), AdamW)
@c
def midrun(): lm(GPT().to(dev), AdamW, steps=6, start=(3, rec))
@c
def oom():
    rec(); m = GPT(L=6).to(dev); o = AdamW(m)
    try:
        for i in range(4):
            if i == 2:
                total = torch.cuda.get_device_properties(0).total_memory
                torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 60*2**20)/total)
            ids = torch.randint(0, 5000, (4 if i < 2 else 64, 256), device=dev)
            with hooks():
                logits = m(ids); loss = F.cross_entropy(logits.view(-1, 5000), ids.view(-1))
            mark(f"fwd{i}", [m], [o], [ids], others=[logits, loss])
            loss.backward(); o.step(); o.zero_grad(); mark(f"end{i}", [m], [o], [ids])
    except torch.OutOfMemoryError:
        mark("oomed", [m], [o], [ids])
@c
def lora():
    import transformers, peft
    cfg = transformers.GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=5000)
    rec(); base = transformers.GPT2LMHeadModel(cfg).to(dev)
    m = peft.get_peft_model(base, peft.LoraConfig(r=8, target_modules=["c_attn"])); m.to(dev)
    o = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad])
    for i in range(4):
        ids = torch.randint(0, 5000, (4, 160), device=dev)
        with hooks(): loss = m(input_ids=ids, labels=ids).loss
        mark(f"fwd{i}", [m], [o], [ids], others=[loss]); loss.backward(); mark(f"bwd{i}", [m], [o], [ids], others=[loss])
        o.step(); mark(f"opt{i}", [m], [o], [ids], others=[loss]); o.zero_grad(); mark(f"end{i}", [m], [o], [ids], others=[loss])
@c
def gan():
    rec(); mk = lambda a, b: nn.Sequential(nn.Linear(a, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, b)).to(dev)
    g, d = mk(64, 512), mk(512, 1); og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters()); data = torch.randn(4096, 512, device=dev)
    for i in range(5):
        z = torch.randn(512, 64, device=dev); x = data[i*512:(i+1)*512]
        with hooks(): fake = g(z); l = d(x).mean() - d(fake.detach()).mean()
        mark(f"fwdD{i}", [g, d], [og, od], [z, data], others=[fake, l]); l.backward(); mark(f"bwdD{i}", [g, d], [og, od], [z, data], others=[fake, l]); od.step(); od.zero_grad()
        with hooks(): l2 = d(fake).mean()
        l2.backward(); mark(f"bwdG{i}", [g, d], [og, od], [z, data], others=[fake, l, l2]); og.step(); og.zero_grad(); od.zero_grad()
        mark(f"end{i}", [g, d], [og, od], [z, data], others=[fake, l, l2])
@c
def compiled():
    rec(); m = GPT().to(dev); lm(torch.compile(m), AdamW, saved=False, vary=False, ann="step %d")
@c
def lightning():
    import pytorch_lightning as pl
    rec(); g = GPT()
    class M(pl.LightningModule):
        def __init__(s): super().__init__(); s.g = g
        def training_step(s, b, i):
            with hooks(): l = F.cross_entropy(s.g(b[0]).view(-1, 5000), b[0].view(-1))
            mark(f"fwd{i}", [s.g], [s.optimizers().optimizer], [b[0]], others=[l]); return l
        def on_after_backward(s): mark("bwd", [s.g], [s.optimizers().optimizer])
        def on_before_zero_grad(s, o): mark("opt", [s.g], [o])
        def configure_optimizers(s): return torch.optim.AdamW(s.parameters())
    ds = torch.utils.data.TensorDataset(torch.randint(0, 5000, (24, 128)))
    pl.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(M(), torch.utils.data.DataLoader(ds, batch_size=4))
@c
def hooked():
    """The optimizer steps within the backward pass, a parameter at a time."""
    rec(); m = GPT().to(dev); os_ = {p: torch.optim.AdamW([p], foreach=False) for p in m.parameters()}
    def h(p): os_[p].step(); os_[p].zero_grad()
    for p in m.parameters(): p.register_post_accumulate_grad_hook(h)
    for i in range(4):
        ids = torch.randint(0, 5000, (4, 160), device=dev)
        with hooks(): l = F.cross_entropy(m(ids).view(-1, 5000), ids.view(-1))
        mark(f"fwd{i}", [m], list(os_.values()), [ids], others=[l]); l.backward(); mark(f"bwd{i}", [m], list(os_.values()), [ids], others=[l])
@c
def static_cache():
    import transformers
    from transformers import StaticCache
    cfg = transformers.LlamaConfig(hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=5000)
    rec(); m = transformers.LlamaForCausalLM(cfg).to(dev).half().eval()
    with torch.no_grad():
        for r in range(3):
            cache = StaticCache(config=cfg, max_cache_len=256); ids = torch.randint(0, 5000, (4, 64), device=dev)
            for t in range(6):
                pos = torch.arange(0, 64, device=dev) if t == 0 else torch.tensor([63 + t], device=dev)
                o = m(input_ids=ids, past_key_values=cache, cache_position=pos, use_cache=True); ids = o.logits[:, -1:].argmax(-1)
                if t % 3 == 2: mark(f"gen{r}.{t}", [m], [], [ids], caches=[x for l in cache.layers for x in (l.keys, l.values) if x is not None], others=[o.logits])
def dist1():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29500 + os.getpid() % 2000), RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", device_id=torch.device(dev))
@c
def ddp():
    dist1(); rec(); m = nn.parallel.DistributedDataParallel(GPT().to(dev), device_ids=[0]); lm(m, AdamW)
@c
def fsdp2():
    dist1(); from torch.distributed.fsdp import fully_shard
    rec(); m = GPT().to(dev)
    for b in m.blocks: fully_shard(b)
    fully_shard(m); lm(m, AdamW)
if case == "list": print(" ".join(C)); sys.exit()
err = None
try: C[case]()
except Exception as e: err = repr(e)[:500]
torch.cuda.memory._dump_snapshot(f"{out}/{case}.pickle")
json.dump({"case": case, "error": err, "marks": marks}, open(f"{out}/{case}.truth.json", "w"))
print(case, err, len(marks), torch.cuda.max_memory_allocated()/2**20, flush=True)
