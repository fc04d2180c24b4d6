"""Submits a job file by gRPC alone and follows it to its end: submit.py HOST:PORT JOB-FILE

Needs grpcio and grpcio-reflection, no generated code: the server describes its services itself.
"""
import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

address, path = sys.argv[1:]
channel = grpc.insecure_channel(address)
server = ProtoReflectionDescriptorDatabase(channel)
print("services:", *server.get_services())
jobs = descriptor_pool.DescriptorPool(server).FindServiceByName("millstream.v1.JobService")


def call(name, **fields):
    method = jobs.methods_by_name[name]
    request, response = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
    send = channel.unary_stream if method.server_streaming else channel.unary_unary
    return send(f"/{jobs.full_name}/{name}", request.SerializeToString, response.FromString)(request(**fields))


with open(path, encoding="utf-8") as file:
    text = file.read()
try:
    job_id = call("SubmitJob", job_file=text).job_id
except grpc.RpcError as refusal:  # every fault of the job, in words
    sys.exit(f"{refusal.code().name}: {refusal.details()}")
print("job:", job_id, flush=True)
states, state = jobs.file.enum_types_by_name["JobStatus"].values_by_number, None
for event in call("WatchJob", job_id=job_id):  # the last event is the job's end
    news = getattr(event, event.WhichOneof("event"))
    if getattr(news, "status", state) != state:
        state = news.status
        print("state:", states[state].name.removeprefix("JOB_STATUS_"), flush=True)
sys.exit(states[state].name != "JOB_STATUS_FINISHED")
