package cluster

import (
	"regexp"
	"strings"
	"unicode"
)

// secretShapes are what secrets look like in what programs print: what stands before one is kept.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`()(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|$)`),
	regexp.MustCompile(`()\bey[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), // a JSON web token
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[^\s"',;]+`),
	regexp.MustCompile(`(?i)((?:token|password|passwd|passphrase|secret|credential|api[_-]?key|access[_-]?key|private[_-]?key)["']?\s*[:=]\s*["']?)[^\s"',;]+`),
	regexp.MustCompile(`(://[^\s/:@]*:)[^\s/@]+@`), // a password in a URL
}

var longWord = regexp.MustCompile(`[A-Za-z0-9+_=-]{32,}`)

// redactOutput makes what a program printed fit for an error: one line of bounded length, without the secrets that were
// handed to the program and without what looks like one (F4).
func redactOutput(text string, secrets []string) string {
	const hidden, most = "[hidden]", 500
	for _, secret := range secrets {
		if len(secret) >= 6 { // a shorter one is part of ordinary words
			text = strings.ReplaceAll(text, secret, hidden)
		}
	}
	for _, shape := range secretShapes {
		text = shape.ReplaceAllString(text, "${1}"+hidden)
	}
	text = longWord.ReplaceAllStringFunc(text, func(word string) string {
		if strings.ContainsFunc(word, unicode.IsDigit) && strings.ContainsFunc(word, unicode.IsLetter) {
			return hidden
		}
		return word
	})
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > most {
		text = "…" + string(runes[len(runes)-most:]) // the end says what became of it
	}
	return text
}
