// Command gen makes the Go code of pluginv2/pluginv2.proto. It needs no protoc: the file is compiled by a Go library, and
// handed to the generators, which are tools of this module, as protoc would do it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const source = "pluginv2.proto"

func main() {
	files, err := generate(context.Background(), "pluginv2")
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join("pluginv2", name), content, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate returns the files that are made of the source in a folder, by name.
func generate(ctx context.Context, folder string) (map[string][]byte, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{folder}},
		SourceInfoMode: protocompile.SourceInfoStandard, // the comments
	}
	compiled, err := compiler.Compile(ctx, source)
	if err != nil {
		return nil, err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source}, Parameter: proto.String("paths=source_relative"),
		ProtoFile: []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(compiled[0])},
	})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		answer, err := run(ctx, tool, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tool, err)
		}
		for _, file := range answer.File {
			files[file.GetName()] = []byte(file.GetContent())
		}
	}
	return files, nil
}

// run hands a request to a generator.
func run(ctx context.Context, tool string, request []byte) (*pluginpb.CodeGeneratorResponse, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	answer := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, errors.New(*answer.Error)
	}
	return answer, nil
}
