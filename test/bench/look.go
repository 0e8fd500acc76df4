//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// resident reads what memory of the process is resident.
func (p *process) resident(into *footprint) error {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return err
	}
	fields := map[string]*float64{"VmRSS": &into.resident, "RssAnon": &into.anonymous, "VmHWM": &into.peak}
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(line, ":")
		if field := fields[key]; field != nil {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			*field = kib * 1024
		}
	}
	return nil
}

// heap returns the heap after a garbage collection in bytes: spans in use, and objects.
func (p *process) heap(ctx context.Context) (inUse, objects float64, err error) {
	text, err := get(ctx, "http://"+p.pprof+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), " = ")
		switch key {
		case "HeapInuse":
			inUse, err = strconv.ParseFloat(value, 64)
		case "HeapAlloc":
			objects, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if inUse == 0 || objects == 0 {
		return 0, 0, errors.New("the heap profile tells no sizes")
	}
	return inUse, objects, nil
}

// get returns the body that a URL is answered with.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, body)
	}
	return string(body), err
}
