"""What an engineer says who looks at the recorded GPU traces in a viewer."""

READ = {
    "h100_Falconsai_nsfw_image_detection__1016002.json.gz": (
        "Inference of a ViT on 4 images: 154 kernels of 8 us, each launched after the one before has "
        "ended. A larger batch, or a CUDA graph. Second: the products of 788 x 768 x 768 run in "
        "kernels made for A100 at 11 % of the peak, the larger ones in those for H100 at 27 %: too "
        "few rows."
    ),
    "mi300_Falconsai_nsfw_image_detection__1016002.json.gz": (
        "The same, with faster launches and slower kernels: attention takes three times as long as on "
        "the H100, at 3 % of the limit."
    ),
    "h100_gaunernst_bert-small-uncased__1016001.json.gz": (
        "Inference of a small BERT on 141 tokens: the device works for 0.3 of 3.9 ms. Graph, or "
        "batches. The output layer of 30522 columns takes an unaligned kernel; padding it is worth "
        "less than 1 % here."
    ),
    "mi300_gaunernst_bert-small-uncased__1016001.json.gz": (
        "The same; one value is read back in between, after which the queue is empty (5 %)."
    ),
    "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz": (
        "One hole of 493 ms at the beginning, while the host copies positions and the work before is "
        "launched already: it belongs to the recording, not to the engine. Then a prefill that is "
        "products (85 % of the busy time) at 40 % of the peak; those of 15360 x 24576 x 4096 at 35 % "
        "are the ones to tune."
    ),
    "inference_vllm_prefilldecode_piecewise_graph_execution.json.gz": (
        "The device is never idle: products of experts in Triton (78 % of the time). Nothing to do on "
        "the host."
    ),
    "perf_model_normalization_normalization_layer_test.json.gz": (
        "A test of layers, no run: 1 ms of kernels in 1.07 s, which the host spends in the first "
        "calls (gaps of 332 ms in batch_norm, 211 ms in group_norm: kernels are compiled or loaded)."
    ),
    "torch_compile_triton_trace.json.gz": (
        "A compiled block: never idle, products at 42 % of the peak, attention at 23 %; only other "
        "kernels or fewer bits would help."
    ),
    "hta_trace_diff_control.json.gz": (
        "A recommender on 8 A100, rank 3: the exchange of embeddings (send and receive, 22 ms a step) "
        "is mostly exposed, the averaging of gradients mostly not; lookups and their update take 9 ms "
        "a step; launches are late for 13 %; a third of the copies to the device is exposed. Products "
        "already run in TF32."
    ),
}
"""By the name of the file. Written after looking, so that what is said can be held against it."""
