"""The files whose tests take longest, so that they start first when files are distributed to processes.

xdist starts the files with the most tests first. A long file of few tests would then run alone at the
end. Renew the list from `pytest --durations=0` when files become much longer or shorter.
"""

import pytest

LONGEST_FIRST = (
    "unit/inference_worker/engines/minicpmo/token2wav/test_chunk_graphs.py",
    "unit/inference_worker/engines/minicpmo/token2wav/test_token2wav_gpu.py",
    "unit/inference_worker/engines/minicpmo/token2wav/test_token2wav_vocoder.py",
    "browser/test_firefox.py",
    "browser/test_speech.py",
    "browser/test_calls.py",
    "system/commands/test_demo_and_up.py",
    "unit/inference_worker/engines/local/test_turn_taking.py",
    "system/stack/test_examples.py",
    "system/faults/test_chaos.py",
    "system/faults/test_redis_sentinel.py",
    "system/faults/test_redis_cluster.py",
    "system/stack/test_openai_realtime.py",
    "system/stack/test_openai_live.py",
    "system/stack/test_openai_sdk.py",
    "system/stack/test_openbmb_sdk.py",
    "system/stack/test_twilio.py",
    "system/stack/test_conversation.py",
    "system/commands/test_document_commands.py",
    "unit/recorder_service/test_folder.py",
    "unit/inference_worker/engines/minicpmo/test_bench.py",
    "unit/inference_worker/engines/minicpmo/model/test_compiled_programs.py",
    "unit/inference_worker/engines/minicpmo/model/test_quantized_weight.py",
    "browser/test_surroundings.py",
    "browser/test_slow_loading.py",
    "unit/inference_worker/engines/local/test_chat.py",
    "browser/test_webkit.py",
    "system/faults/test_silent_name_server.py",
    "browser/test_start_page.py",
    "unit/inference_worker/engines/minicpmo/conversations/test_duplex.py",
    "unit/inference_worker/engines/local/test_tools.py",
    "browser/test_nothing_is_lost.py",
    "unit/inference_worker/engines/local/test_conformance.py",
    "redis/broker/test_sentinel.py",
    "unit/inference_worker/engines/minicpmo/test_processor.py",
    "redis/broker/test_stream_reader.py",
    "redis/edge/test_resume_exactly.py",
    "browser/test_turn_pages.py",
    "unit/inference_worker/engines/minicpmo/views/test_turn_views.py",
    "system/faults/test_full_disk.py",
    "system/faults/test_workers.py",
    "system/faults/test_difficult_clients.py",
    "system/faults/test_waiting_clients.py",
    "system/faults/test_redis_servers.py",
    "system/faults/test_lost_processes.py",
    "system/commands/test_mistakes.py",
    "system/faults/test_redis_connections.py",
    "system/stack/test_documented_examples.py",
    "system/commands/test_talk.py",
    "system/commands/test_bench.py",
    "system/commands/test_evaluate.py",
    "unit/test_layering.py",
    "system/edge/test_queue.py",
    "unit/inference_worker/engines/minicpmo/views/test_speech_recovery.py",
    "unit/shared_schemas/test_entries.py",
    "unit/inference_worker/engines/minicpmo/test_device_faults.py",
    "redis/broker/test_wrong_deployments.py",
    "system/faults/test_realtime_chat.py",
    "redis/recorder/test_consent.py",
    "redis/broker/test_malformed_rows.py",
    "unit/inference_worker/engines/local/hearing/test_transcription.py",
    "unit/inference_worker/engines/local/test_duplex.py",
    "redis/broker/test_pipeline.py",
    "system/edge/test_faults.py",
    "system/stack/test_fuzz_sockets.py",
    "system/faults/test_resume_on_another_edge.py",
    "system/stack/test_redis_rights.py",
    "system/stack/test_document_snippets.py",
    "redis/worker/test_long_sessions.py",
    "browser/test_home.py",
    "system/edge/test_request_bodies.py",
    "redis/broker/test_properties.py",
)
"""Below tests/, by the seconds that they take."""

_PLACES = {f"tests/{name}": place for place, name in enumerate(LONGEST_FIRST)}


def sort_longest_first(items: list[pytest.Item]) -> None:
    """Keeps the order of the tests of each file, and of the other files."""
    items.sort(key=lambda item: _PLACES.get(item.nodeid.partition("::")[0], len(_PLACES)))
