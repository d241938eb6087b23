// Streams a worker's reply to a message: say ADDRESS MESSAGE [MAX_TOKENS].
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	v1 "plimsoll/v1"
)

// say streams the reply to standard output.
func say(address, message string, maxTokens uint32) error {
	options := []grpc.DialOption{grpc.WithInsecure()}
	// A channel repeats the calls that may be repeated, if this is
	// proto/plimsoll/v1/service_config.json.
	if path := os.Getenv("PLIMSOLL_SERVICE_CONFIG"); path != "" {
		config, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		options = append(options, grpc.WithDefaultServiceConfig(string(config)))
	}
	channel, err := grpc.Dial(address, options...)
	if err != nil {
		return err
	}
	defer channel.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var temperature float32
	stream, err := v1.NewGenerationServiceClient(channel).StreamGenerate(ctx,
		&v1.StreamGenerateRequest{
			Input: &v1.StreamGenerateRequest_Chat{Chat: &v1.ChatPrompt{
				Messages: []*v1.ChatMessage{
					{Role: v1.ChatRole_CHAT_ROLE_USER, Content: message},
				},
			}},
			Sampling: &v1.SamplingOptions{Temperature: &temperature},
			Stopping: &v1.StoppingOptions{MaxTokens: &maxTokens},
		})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			fmt.Println()
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Print(part.Text)
	}
}

// reason is the reason that the server gives for a failure, a name of
// v1.ErrorReason.
func reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: say ADDRESS MESSAGE [MAX_TOKENS]")
		os.Exit(2)
	}
	maxTokens := 64
	if len(os.Args) > 3 {
		maxTokens, _ = strconv.Atoi(os.Args[3])
	}
	if err := say(os.Args[1], os.Args[2], uint32(maxTokens)); err != nil {
		message := status.Convert(err).Message()
		fmt.Fprintf(os.Stderr, "error: %s: %s\n", reason(err), message)
		os.Exit(1)
	}
}
