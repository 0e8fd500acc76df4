package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A module whose tests fail in ways that the environment and files beside them choose.
const moody = `package moody

import (
	"os"
	"testing"
	"time"
)

// once fails until it has been asked before.
func once(t *testing.T, name string) {
	if _, err := os.Stat(name); err == nil {
		return
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s is not in the mood", name)
}

func TestGood(t *testing.T) {
	if f, err := os.OpenFile("good", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		f.WriteString("x")
		f.Close()
	}
}
func TestMoody(t *testing.T)      { t.Run("sub", func(t *testing.T) { once(t, "first") }) }
func TestMoodyToo(t *testing.T)   { once(t, "second") }
func TestNever(t *testing.T)      { if os.Getenv("MOOD") == "never" { t.Error("never") } }
func TestPanics(t *testing.T)     { if os.Getenv("MOOD") == "panic" { panic("out of cheese") } }
func TestSkipsThen(t *testing.T) {
	if os.Getenv("MOOD") != "skip" {
		return
	}
	if once(t, "third"); !t.Failed() {
		t.Skip("not this time")
	}
}
func TestWaits(t *testing.T)      { if os.Getenv("MOOD") == "wait" { time.Sleep(time.Minute) } }
func TestExits(t *testing.T)      { if os.Getenv("MOOD") == "exit" { os.Exit(1) } }
`

// Few tests that fail are run once more, alone; what else goes wrong fails at once.
func TestRerun(t *testing.T) {
	const last = "failed at first and passed alone: example.io/moody TestMoody, example.io/moody TestMoodyToo\n"
	tests := []struct {
		name, mood string
		args       []string
		passes     bool
		ends       string // of what is printed; empty: there is no second run
	}{
		{"as many as may", "", []string{"-rerun", "2", "./..."}, true, last},
		{"too many", "", []string{"-rerun", "1", "./..."}, false, ""},
		{"without the flag", "", []string{"./..."}, false, ""},
		{"one fails twice", "never", []string{"-rerun", "4", "./..."}, false,
			last + "failed at first, and did not pass alone: example.io/moody TestNever\n"},
		{"one skips then", "skip", []string{"-rerun", "4", "./..."}, false,
			last + "failed at first, and did not pass alone: example.io/moody TestSkipsThen\n"},
		{"panic", "panic", []string{"-rerun", "4", "./..."}, false, ""},
		{"timeout", "wait", []string{"-rerun", "4", "-timeout=2s", "./..."}, false, ""},
		{"ends its process", "exit", []string{"-rerun", "4", "./..."}, false, ""},
		{"does not compile", "broken", []string{"-rerun", "4", "./..."}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"go.mod": "module example.io/moody\n\ngo 1.26\n", "moody_test.go": moody}
			if tt.mood == "broken" {
				files["bad/bad_test.go"] = "package bad\n\nvar x int = nothing\n"
			}
			for name, content := range files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			t.Setenv("MOOD", tt.mood)
			t.Setenv("GOWORK", "off")
			t.Setenv("GOFLAGS", "")
			var out strings.Builder
			err := test(&out, tt.args)
			printed := out.String()
			if (err == nil) != tt.passes {
				t.Errorf("error %v, printed:\n%s", err, printed)
			}
			if tt.mood != "broken" && !strings.Contains(printed, "first is not in the mood") {
				t.Errorf("the first failure is not printed:\n%s", printed)
			}
			again := strings.Contains(printed, "once more, alone")
			if again != (tt.ends != "") || !strings.HasSuffix(printed, tt.ends) {
				t.Errorf("second run: %t; expected at the end:\n%s\nprinted:\n%s", again, tt.ends, printed)
			}
			if tt.ends == "" {
				return
			}
			if good, err := os.ReadFile("good"); err != nil || string(good) != "x" {
				t.Errorf("the test that passed ran %d times: %v", len(good), err)
			}
		})
	}
}

func TestRerunWantsFlagsInOneWay(t *testing.T) {
	for _, args := range [][]string{{"-rerun"}, {"-rerun", "some", "./..."}, {"-rerun", "-1", "./..."}, {"-rerun", "4", "-p", "1", "-timeout=1m", "./..."}} {
		if err := test(&strings.Builder{}, args); err == nil || !regexp.MustCompile("-rerun.*expected").MatchString(err.Error()) {
			t.Errorf("%q: error %v", args, err)
		}
	}
}

// A run that was interrupted is not followed by another.
func TestRerunOfWhatHasEnded(t *testing.T) {
	r := newResults()
	for _, e := range []event{{Action: "run", Test: "TestA"}, {Action: "run", Test: "TestB"}, {Action: "fail", Test: "TestA"}} {
		r.note(e)
	}
	if r.mayRerun(8) {
		t.Error("TestB has not ended")
	}
	if r.note(event{Action: "pass", Test: "TestB"}); !r.mayRerun(8) {
		t.Error("all have ended")
	}
}
