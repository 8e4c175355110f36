"""Reads a trace with Perfetto's own generated messages; prints what it saw as JSON. Needs `pip install perfetto protobuf`."""
import json
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def unknown(message):
    """Number of fields, at any depth, that the official messages do not have."""
    n = len(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type:
            n += sum(unknown(v) for v in (value if field.is_repeated else [value]))
    return n


trace = pb.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
names, seen = {}, {"packets": len(trace.packet), "unknown": unknown(trace), "switches": [], "wakings": [], "begins": [], "threads": [], "samples": []}
stacks = {"function_names": {}, "frames": {}, "callstacks": {}, "mapping_paths": {}, "mappings": {}}
for packet in trace.packet:
    for name in packet.interned_data.event_names:
        names[name.iid] = name.name
    for table, rows in stacks.items():
        rows.update((row.iid, row) for row in getattr(packet.interned_data, table))
    if packet.HasField("perf_sample"):
        s, texts = packet.perf_sample, []
        for iid in stacks["callstacks"][s.callstack_iid].frame_ids if s.HasField("callstack_iid") else []:
            frame = stacks["frames"][iid]
            module = stacks["mapping_paths"][stacks["mappings"][frame.mapping_id].path_string_ids[0]]
            texts.append(f"{stacks['function_names'][frame.function_name_id].str.decode()} ({module.str.decode()})")
        seen["samples"].append([packet.timestamp, s.pid, s.tid, s.cpu, ";".join(texts)])
    for event in packet.ftrace_events.event:
        if event.HasField("sched_switch"):
            s = event.sched_switch
            seen["switches"].append([packet.ftrace_events.cpu, event.timestamp, s.prev_pid, s.prev_state, s.next_pid])
        for kind in ("sched_waking", "sched_wakeup_new"):
            if event.HasField(kind):
                seen["wakings"].append([event.timestamp, event.pid, getattr(event, kind).pid])
    if packet.HasField("track_event") and packet.track_event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
        seen["begins"].append([packet.timestamp, names[packet.track_event.name_iid]])
    if packet.track_descriptor.HasField("thread"):
        seen["threads"].append([packet.track_descriptor.thread.pid, packet.track_descriptor.thread.tid])
print(json.dumps(seen))
