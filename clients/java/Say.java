import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.lite.ProtoLiteUtils;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import plimsoll.v1.Common.ChatMessage;
import plimsoll.v1.Common.ChatPrompt;
import plimsoll.v1.Common.ChatRole;
import plimsoll.v1.Generation.SamplingOptions;
import plimsoll.v1.Generation.StoppingOptions;
import plimsoll.v1.Generation.StreamGenerateRequest;
import plimsoll.v1.Generation.StreamGenerateResponse;
import plimsoll.v1.GenerationServiceGrpc;

/** Streams a worker's reply to a message: Say ADDRESS MESSAGE [MAX_TOKENS]. */
public final class Say {
  private static final Metadata.Key<com.google.rpc.Status> DETAILS =
      Metadata.Key.of(
          "grpc-status-details-bin",
          ProtoLiteUtils.metadataMarshaller(com.google.rpc.Status.getDefaultInstance()));

  private static void say(ManagedChannel channel, String message, int maxTokens) {
    StreamGenerateRequest request =
        StreamGenerateRequest.newBuilder()
            .setChat(
                ChatPrompt.newBuilder()
                    .addMessages(
                        ChatMessage.newBuilder()
                            .setRole(ChatRole.CHAT_ROLE_USER)
                            .setContent(message)))
            .setSampling(SamplingOptions.newBuilder().setTemperature(0))
            .setStopping(StoppingOptions.newBuilder().setMaxTokens(maxTokens))
            .build();
    Iterator<StreamGenerateResponse> parts =
        GenerationServiceGrpc.newBlockingStub(channel)
            .withDeadlineAfter(1, TimeUnit.MINUTES)
            .streamGenerate(request);
    while (parts.hasNext()) {
      System.out.print(parts.next().getText());
      System.out.flush();
    }
    System.out.println();
  }

  /** The reason that the server gives for a failure, a name of v1.ErrorReason. */
  private static String reasonOf(StatusRuntimeException error) throws Exception {
    Metadata trailers = error.getTrailers();
    com.google.rpc.Status status = trailers == null ? null : trailers.get(DETAILS);
    if (status == null) {
      return "";
    }
    for (Any detail : status.getDetailsList()) {
      if (detail.is(ErrorInfo.class)) {
        return detail.unpack(ErrorInfo.class).getReason();
      }
    }
    return "";
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 2 || arguments.length > 3) {
      System.err.println("usage: Say ADDRESS MESSAGE [MAX_TOKENS]");
      System.exit(2);
    }
    int maxTokens = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 64;
    ManagedChannel channel =
        Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
    try {
      say(channel, arguments[1], maxTokens);
    } catch (StatusRuntimeException error) {
      String message = error.getStatus().getDescription();
      System.err.println("error: " + reasonOf(error) + ": " + message);
      System.exit(1);
    } finally {
      channel.shutdownNow();
    }
  }
}
