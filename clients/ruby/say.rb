# Streams a worker's reply to a message: ruby say.rb ADDRESS MESSAGE [MAX_TOKENS]
#
# protoc makes the messages' code when this runs. It needs Debian's packages
# ruby-grpc, protobuf-compiler and protobuf-compiler-grpc.

require 'google/protobuf/well_known_types'
require 'google/rpc/error_details_pb'
require 'google/rpc/status_pb'
require 'grpc'
require 'tmpdir'

PROTOS = File.expand_path('../../proto', __dir__)
FILES = %w[common generation].map { |name| "plimsoll/v1/#{name}.proto" }

Dir.mktmpdir do |folder|
  plugin = `which grpc_ruby_plugin`.strip
  system('protoc', "-I#{PROTOS}", "--ruby_out=#{folder}", "--grpc_out=#{folder}",
         "--plugin=protoc-gen-grpc=#{plugin}", *FILES, exception: true)
  $LOAD_PATH.unshift(folder)
  require 'plimsoll/v1/generation_services_pb'
end

# A channel that repeats the calls that may be repeated.
CHANNEL_ARGS = {
  'grpc.service_config' => File.read("#{PROTOS}/plimsoll/v1/service_config.json")
}.freeze

# The reason that the server gives for a failure, a name of V1::ErrorReason.
def reason_of(error)
  details = error.to_rpc_status&.details || []
  info = details.filter_map { |detail| detail.unpack(Google::Rpc::ErrorInfo) }
  info.first&.reason
end

abort 'usage: say.rb ADDRESS MESSAGE [MAX_TOKENS]' unless [2, 3].include?(ARGV.size)
address, message, max_tokens = ARGV

request = Plimsoll::V1::StreamGenerateRequest.new(
  chat: { messages: [{ role: :CHAT_ROLE_USER, content: message }] },
  sampling: { temperature: 0 },
  stopping: { max_tokens: Integer(max_tokens || 64) }
)
stub = Plimsoll::V1::GenerationService::Stub.new(
  address, :this_channel_is_insecure, channel_args: CHANNEL_ARGS
)
begin
  stub.stream_generate(request, deadline: Time.now + 60).each do |part|
    print part.text
    $stdout.flush
  end
  puts
rescue GRPC::BadStatus => e
  abort "error: #{reason_of(e)}: #{e.details}"
end
