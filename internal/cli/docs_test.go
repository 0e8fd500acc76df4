package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	inventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster/access"
	"isthmus.dev/isthmus/internal/config"
)

// pages returns the texts of README.md and the pages of docs, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "../../README.md", "../../docs/reference/configuration.md", "../../docs/reference/api.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

// block is a fenced code block of a page.
type block struct {
	page, language, text string
	indent               string // of the fence, which lines of the text do not have
	line                 int
}

func blocks(t *testing.T) (all []block) {
	t.Helper()
	for page, text := range pages(t) {
		var open *block
		for i, line := range strings.Split(text, "\n") {
			fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case isFence && open == nil:
				open = &block{page: page, language: fence, indent: line[:strings.Index(line, "```")], line: i + 1}
			case isFence:
				all = append(all, *open)
				open = nil
			case open != nil:
				open.text += strings.TrimPrefix(line, open.indent) + "\n"
			}
		}
		if open != nil {
			t.Errorf("%s:%d: the code block has no end", page, open.line)
		}
	}
	return all
}

var hereDocument = regexp.MustCompile(`(?s)<<'EOF'\n(version: v1\n.*?)EOF\n`)

// Every configuration in the documentation is valid.
func TestConfigurationsOfTheDocumentation(t *testing.T) {
	checked := 0
	for _, b := range blocks(t) {
		text := b.text
		if m := hereDocument.FindStringSubmatch(text); m != nil {
			text = m[1]
		} else if b.language != "yaml" {
			continue
		}
		checked++
		name := fmt.Sprintf("%s:%d", b.page, b.line)
		var err error
		switch {
		case strings.HasPrefix(text, "apiVersion:"):
			err = parseObjects(text)
		case strings.HasPrefix(text, "providers:"):
			_, err = access.ParseProviders(name, []byte(text))
		default:
			_, err = config.Parse(name, []byte(text))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if checked < 4 {
		t.Errorf("only %d configurations were found", checked)
	}
}

// parseObjects reads Kubernetes objects, strictly.
func parseObjects(text string) error {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	_ = inventory.AddToScheme(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, object := range strings.Split(text, "\n---\n") {
		if _, _, err := decoder.Decode([]byte(object), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Every command line of isthmus in the documentation is one that it accepts.
func TestCommandLinesOfTheDocumentation(t *testing.T) {
	checked := 0
	for _, b := range blocks(t) {
		for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
			args := strings.Fields(line)
			if len(args) == 0 || args[0] != "isthmus" {
				continue
			}
			if end := slices.IndexFunc(args, func(a string) bool { return a == "|" || a == ">" || a == "&" }); end >= 0 {
				args = args[:end]
			}
			checked++
			cmd, rest, err := newRootCommand().Find(args[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateRequiredFlags()
			}
			if err == nil && cmd.Args != nil {
				err = cmd.Args(cmd, cmd.Flags().Args())
			}
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s:%d: %s: %v", b.page, b.line, strings.TrimSpace(line), err)
			}
		}
	}
	if checked < 6 {
		t.Errorf("only %d command lines were found", checked)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every relative link leads to a file, and where it has one, to a heading.
func TestLinksOfTheDocumentation(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			content, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(string(content)), anchor) {
				t.Errorf("%s: the link %s leads to no heading", page, m[1])
			}
		}
	}
}

var notAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchors returns the anchors of a page's headings.
func anchors(text string) (all []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			all = append(all, strings.ReplaceAll(notAnchor.ReplaceAllString(heading, ""), " ", "-"))
		}
	}
	return all
}

// What the troubleshooting page quotes is said by the code, and what the code warns of is on the page.
func TestMessagesOfTheTroubleshootingPage(t *testing.T) {
	page := pages(t)["../../docs/troubleshooting.md"]
	literals, warnings := messages(t)
	quoted := 0
	for line := range strings.Lines(page) {
		message, ok := strings.CutPrefix(strings.TrimSpace(line), "> ")
		if !ok {
			continue
		}
		quoted++
		for i, part := range strings.Split(message, "…") {
			if reason, rest, ok := strings.Cut(part, ": "); i == 0 && ok && slices.Contains(reasons, boundary.Reason(reason)) {
				part = rest
			}
			part = strings.Trim(part, " :")
			if !strings.Contains(literals, part) {
				t.Errorf("no code says %q, of %q", part, message)
			}
		}
	}
	if quoted < 30 {
		t.Errorf("only %d messages were found", quoted)
	}
	for _, warning := range warnings {
		for _, part := range verb.Split(warning, -1) {
			if !strings.Contains(page, strings.TrimSpace(part)) {
				t.Errorf("the page does not explain the warning %q", warning)
			}
		}
	}
	for _, reason := range reasons {
		if !strings.Contains(page+pages(t)["../../docs/monitoring.md"], "`"+string(reason)+"`") {
			t.Errorf("the reason %s is not explained", reason)
		}
	}
}

var reasons = []boundary.Reason{
	boundary.ReasonCreated, boundary.ReasonUpdated, boundary.ReasonDeleted, boundary.ReasonSyncFailed, boundary.ReasonPatchFailed,
	boundary.ReasonCreateFailed, boundary.ReasonUpdateFailed, boundary.ReasonDeleteFailed,
	boundary.ReasonInvalidTargetName, boundary.ReasonContention,
}

var verb = regexp.MustCompile(`%[a-z]`)

// messages returns all string literals of the code, and those that are logged as warnings or errors.
func messages(t *testing.T) (literals string, warnings []string) {
	t.Helper()
	paths, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../controlplane/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					all.WriteString(text + "\n")
				}
			case *ast.CallExpr:
				if selector, ok := n.Fun.(*ast.SelectorExpr); ok && (selector.Sel.Name == "Warn" || selector.Sel.Name == "Error") {
					if text := firstLiteral(n); text != "" {
						warnings = append(warnings, text)
					}
				}
			}
			return true
		})
	}
	return all.String(), warnings
}

// firstLiteral returns the message of a log call, also one that is formatted.
func firstLiteral(call *ast.CallExpr) string {
	if len(call.Args) == 0 {
		return ""
	}
	switch arg := call.Args[0].(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(arg.Value)
		return text
	case *ast.CallExpr:
		return firstLiteral(arg)
	}
	return ""
}
