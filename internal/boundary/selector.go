package boundary

import "maps"

const (
	matchLabels      = "matchLabels"
	matchExpressions = "matchExpressions"
)

// selector translates a label selector with matchLabels and matchExpressions, or a plain map of labels, so that it
// selects the same objects on the other side, and nothing of others' (X2). An empty selector selects all objects of the
// source's side, so it becomes one that selects these.
func (w *translation) selector(object map[string]any) (any, *wrongType) {
	if !isLabelSelector(object) {
		return w.labels(object)
	}
	labels, wrong := w.matchLabels(object[matchLabels])
	if wrong != nil {
		return nil, wrong.within(inField(matchLabels))
	}
	expressions, wrong := w.matchExpressions(object[matchExpressions])
	if wrong != nil {
		return nil, wrong.within(inField(matchExpressions))
	}
	return with(with(object, object, matchLabels, labels), object, matchExpressions, expressions), nil
}

// isLabelSelector tells a label selector from a plain map of labels, which holds only strings. An empty object is taken
// for a label selector.
func isLabelSelector(object map[string]any) bool {
	for _, field := range []string{matchLabels, matchExpressions} {
		if v, present := object[field]; present {
			if _, isLabel := v.(string); !isLabel {
				return true
			}
		}
	}
	return len(object) == 0
}

func (w *translation) matchLabels(v any) (any, *wrongType) {
	switch v := v.(type) {
	case nil:
		if labels, _ := w.labels(nil); len(labels) > 0 {
			return labels, nil
		}
		return nil, nil
	case map[string]any:
		return w.labels(v)
	}
	return nil, unexpected(RewriteLabelSelector, "an object", v)
}

// labels translates the keys of labels, and adds what keeps a selector to its own side's objects.
func (w *translation) labels(labels map[string]any) (map[string]any, *wrongType) {
	more, changes := w.tr.SelectorLabels(w.source.Namespace), false
	for _, key := range sortedKeys(labels) {
		if _, ok := labels[key].(string); !ok {
			return nil, unexpected(RewriteLabelSelector, "a string", labels[key]).within(inField(key))
		}
		changes = changes || w.tr.LabelKey(key) != key
	}
	if len(more) == 0 && !changes {
		return labels, nil
	}
	out := maps.Clone(labels)
	if out == nil {
		out = make(map[string]any, len(more))
	}
	for key := range labels {
		if w.tr.LabelKey(key) != key {
			delete(out, key)
		}
	}
	for key, value := range labels { // they win over a label that has such a key already
		if translated := w.tr.LabelKey(key); translated != key {
			out[translated] = value
		}
	}
	for key, value := range more {
		out[key] = value
	}
	return out, nil
}

func (w *translation) matchExpressions(v any) (any, *wrongType) {
	if v == nil {
		return v, nil
	}
	items, ok := v.([]any)
	if !ok {
		return nil, unexpected(RewriteLabelSelector, "a list", v)
	}
	var out []any // nil: as it was
	for i, item := range items {
		expression, ok := item.(map[string]any)
		if !ok {
			return nil, unexpected(RewriteLabelSelector, "an object", item).within(inItem(i))
		}
		key, ok := expression["key"].(string)
		if !ok {
			return nil, unexpected(RewriteLabelSelector, "a string", expression["key"]).within(inField("key"), inItem(i))
		}
		out = withItem(out, items, i, with(expression, expression, "key", w.tr.LabelKey(key)))
	}
	if out == nil {
		return v, nil
	}
	return out, nil
}
