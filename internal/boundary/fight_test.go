package boundary

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// foughtOver gives the scene a twin that was written so often, the last time a second ago.
func foughtOver(writes int, resting bool) func(*Input) {
	return func(in *Input) {
		f := &Fight{Writes: writes, Last: in.Now.Add(-time.Second)}
		if resting {
			f.Since, f.Told = in.Now.Add(-time.Minute), in.Now.Add(-time.Minute)
		}
		in.Memory.TwinFight = f
	}
}

// changedBy gives the scene the twin on which another manager changed something.
func changedBy(s *scene, manager string, change func(*unstructured.Unstructured)) *scene {
	s.t.Helper()
	d := Decide(s.Input)
	server := newServer(s.t, widgetTypes(s.t), widgetGVK)
	server.apply(d.Body, FieldManager)
	server.update(manager, change)
	s.Twin = server.twin()
	s.Memory.Wrote = d.Hash
	return s
}

func scaled(o *unstructured.Unstructured) { set(o, int64(9), "spec", "replicas") }

func TestO6_AFightOverTheTwinRests(t *testing.T) {
	later := func(by time.Duration) func(*Input) { return func(in *Input) { in.Now = in.Now.Add(by) } }
	gone := func(in *Input) { in.Twin = nil }
	edited := func(in *Input) { set(in.Source, "other", "spec", "image") }
	for _, test := range []struct {
		name   string
		change []func(*Input)
		want   expect
		texts  []string
	}{
		{name: "the first time", want: expect{action: Apply}},
		{name: "the eighth time", change: []func(*Input){foughtOver(7, false)}, want: expect{action: Apply}},
		{name: "the ninth time", change: []func(*Input){foughtOver(8, false)}, want: expect{Hold, UntilCalm, "field manager hpa changes the twin back (spec.replicas) each time"},
			texts: []string{"hostOwnedFields: [spec.replicas]"}},
		{name: "the ninth time, after a while", change: []func(*Input){foughtOver(8, false), later(time.Minute)}, want: expect{action: Apply}},
		{name: "at rest, told already", change: []func(*Input){foughtOver(8, true)}, want: expect{Hold, UntilCalm, ""}},
		{name: "at rest, told long ago", change: []func(*Input){foughtOver(8, true), func(in *Input) { in.Memory.TwinFight.Told = noon.Add(-time.Hour) }},
			want: expect{Hold, UntilCalm, "field manager hpa"}},
		{name: "at rest for a minute", change: []func(*Input){foughtOver(8, true), later(time.Minute)}, want: expect{action: Apply}},
		{name: "deleted each time", change: []func(*Input){foughtOver(8, false), gone}, want: expect{Hold, UntilCalm, "deletes the twin"}, texts: []string{"onTwinDeleted: Hold"}},
		{name: "deleted for the first time", change: []func(*Input){gone}, want: expect{action: Create}},
		{name: "a new source", change: []func(*Input){foughtOver(8, false), gone, newUID}, want: expect{action: Create}},
		{name: "a change of the source", change: []func(*Input){foughtOver(8, false), edited}, want: expect{action: Apply}},
		{name: "a change of the source, at rest", change: []func(*Input){foughtOver(8, true), edited}, want: expect{Hold, UntilCalm, ""}},
		{name: "a change of the source, at rest for a while", change: []func(*Input){foughtOver(8, true), edited, later(10 * time.Second)}, want: expect{action: Apply}},
		{name: "another Isthmus", change: []func(*Input){foughtOver(8, false), func(in *Input) {
			in.Rules[0].ExtraLabels = map[string]string{"a": "b"}
			in.Memory.Wrote = wanted(in).hash
		}},
			want: expect{Hold, UntilCalm, "writes other content to the twin"}, texts: []string{"another --instance"}},
		{name: "with a status to return", change: []func(*Input){foughtOver(8, true), twinStatus(t, `{ready: true}`)}, want: expect{action: ReturnStatus}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := changedBy(newScene(t), "hpa", scaled)
			for _, change := range test.change {
				change(&s.Input)
			}
			d := Decide(s.Input)
			test.want.check(t, d)
			for _, text := range test.texts {
				if !strings.Contains(strings.Join(d.Reasons, " "), text) {
					t.Errorf("the reasons do not name %s: %q", text, d.Reasons)
				}
			}
			if d.Until == UntilCalm && (!d.RetryAt.After(s.Now) || !d.TwinFight.Resting() || !d.Contended) {
				t.Errorf("held until %v, %+v", d.RetryAt, d.TwinFight)
			}
		})
	}
}

func TestO6_WhoChangesTheTwin(t *testing.T) {
	for _, test := range []struct {
		name           string
		change         func(*unstructured.Unstructured)
		managers, path string
		setting        string
	}{
		{"a field removed", func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "image") }, "", "spec.image", "hostOwnedFields: [spec.image]"},
		{"two changed", func(o *unstructured.Unstructured) { scaled(o); set(o, "x", "spec", "image") }, "hpa", "spec.image spec.replicas", "hostOwnedFields: [spec.image, spec.replicas]"},
		{"a label", func(o *unstructured.Unstructured) { o.SetLabels(merged(o.GetLabels(), "color", "red")) }, "hpa", "metadata.labels.color", "hostOwnedFields: [metadata.labels.color]"},
		{"a label of the rule", func(o *unstructured.Unstructured) { o.SetLabels(merged(o.GetLabels(), "tier", "x")) }, "hpa", "metadata.labels.tier", "no extraLabels for tier"},
	} {
		s := changedBy(newScene(t, func(in *Input) { in.Rules[0].ExtraLabels = map[string]string{"tier": "one"} }), "hpa", test.change)
		foughtOver(8, false)(&s.Input)
		r := Decide(s.Input).TwinFight.Rival
		if strings.Join(r.Managers, " ") != test.managers || strings.Join(r.Paths, " ") != test.path || r.Setting != test.setting {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

func merged(labels map[string]string, key, value string) map[string]string {
	labels[key] = value
	return labels
}

func TestO6_AFightOverTheStatusRests(t *testing.T) {
	wrote := func(in *Input) {
		in.Memory.StatusOf, in.Memory.StatusWritten, in.Memory.StatusResult = "uid-blue", "before", "before"
	}
	fought := func(writes int) func(*Input) {
		return func(in *Input) { in.Memory.SourceFight = &Fight{Writes: writes, Last: in.Now.Add(-time.Second)} }
	}
	local := writers("isthmus/west/main", "janitor", "local")
	for name, test := range map[string]struct {
		change []func(*Input)
		action Action
		event  string
	}{
		"the eighth time":       {[]func(*Input){wrote, fought(7)}, ReturnStatus, ""},
		"the ninth time":        {[]func(*Input){wrote, fought(8), local}, Nothing, "field manager local, janitor writes the status of the source (status.ready) each time; to end it, set statusSync: false"},
		"nobody wrote since":    {[]func(*Input){wrote, fought(8), func(in *Input) { in.Memory.StatusResult = StatusHash(in.Source.Object["status"]) }}, ReturnStatus, ""},
		"of an earlier source":  {[]func(*Input){wrote, fought(8), func(in *Input) { in.Memory.StatusOf = "uid-before" }}, ReturnStatus, ""},
		"and nothing to return": {[]func(*Input){wrote, fought(8), sourceStatus(t, `{ready: true}`)}, Nothing, ""},
	} {
		s := newScene(t).crossed(append([]func(*Input){twinStatus(t, `{ready: true, same: {a: 1}}`), sourceStatus(t, `{ready: false, same: {a: 1}}`)}, test.change...)...)
		if name == "and nothing to return" {
			set(s.Twin, map[string]any{"ready": true}, "status")
		}
		d := Decide(s.Input)
		t.Run(name, func(t *testing.T) { expect{action: test.action, event: test.event}.check(t, d) })
		if d.Contended != (test.event != "") {
			t.Errorf("%s: contended is %v", name, d.Contended)
		}
	}
}

// Two writers that answer each other as they like: whatever they do, there are at most ten writes in any thirty seconds
// but for those that the source asks for, one put-back a minute at rest, and a fight ends when the other writer does.
func TestO6_WritesOfAFightAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fight *Fight
		var writes []time.Time
		now := noon
		write := func(putBack bool) {
			if next := fight.next(putBack, now); next.After(now) {
				fight, _ = fight.held(Rival{}, now)
				return
			}
			rested := fight.Resting()
			if rested && putBack && len(writes) > 0 && now.Sub(writes[len(writes)-1]) < fightPause {
				t.Fatalf("a put-back at rest %s after the last write", now.Sub(writes[len(writes)-1]))
			}
			fight = fight.wrote(putBack, now)
			if putBack || rested {
				writes = append(writes, now)
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{10, 100, 250, 1000, 5000, 20000, 45000}).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				write(false) // the source changes
			case 1:
				fight, _ = fight.stands(now) // nobody answered yet
			default:
				write(true)
			}
			in := 0
			for _, at := range writes {
				if now.Sub(at) < 30*time.Second {
					in++
				}
			}
			if in > 10 {
				t.Fatalf("%d writes in thirty seconds", in)
			}
		}
		now = now.Add(fightPause)
		write(true)
		for _, wait := range []time.Duration{0, fightPause} { // it stands
			now = now.Add(wait)
			fight, _ = fight.stands(now)
		}
		if fight != nil {
			t.Fatalf("unanswered for a minute, and not over: %+v", fight)
		}
	})
}

// A fight that is over is as good as none, whatever comes next.
func TestO6_AFightThatIsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Second
		}
		f := &Fight{Writes: rapid.IntRange(1, fightWrites).Draw(t, "writes"), Last: noon}
		if rapid.IntRange(0, 3).Draw(t, "rests") == 0 {
			f.Since = noon
		}
		now := noon.Add(seconds("later", 90))
		if !f.Over(now) {
			return
		}
		putBack := rapid.Bool().Draw(t, "put back")
		now = now.Add(seconds("and later", 90))
		none := (*Fight)(nil)
		if f.next(putBack, now) != none.next(putBack, now) {
			t.Fatal("a write has to wait")
		}
		if stands, again := f.stands(now); stands != nil || !again.IsZero() {
			t.Fatalf("it still stands: %+v", stands)
		}
		if after := f.wrote(true, now); after.Writes != none.wrote(true, now).Writes || after.Last != now {
			t.Fatalf("after a put-back: %+v", after)
		}
		if after := f.wrote(false, now); !after.Over(now) {
			t.Fatalf("after a write: %+v", after)
		}
	})
}
