package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// show quotes a value for a message; long ones are cut.
func show(value string) string {
	const most = 60
	if utf8.RuneCountInString(value) > most {
		value = string([]rune(value)[:most]) + "…"
	}
	return strconv.Quote(value)
}

// oneOf lists alternatives: "a", "a or b", "one of a, b or c".
func oneOf(values []string) string {
	switch n := len(values); n {
	case 0:
		return "nothing"
	case 1:
		return values[0]
	case 2:
		return values[0] + " or " + values[1]
	default:
		return "one of " + strings.Join(values[:n-1], ", ") + " or " + values[n-1]
	}
}

// nearest returns the candidate that someone who wrote word most likely meant.
func nearest(word string, candidates []string) (string, bool) {
	plain := plainWord(word)
	best, found := len(plain)/3+1, ""
	if len(plain) < 2 || len(plain) > 64 {
		return "", false
	}
	for _, c := range candidates {
		if d := distance(plain, plainWord(c)); d < best || d == 0 {
			best, found = d, c
		}
	}
	return found, found != ""
}

var wordMarks = strings.NewReplacer("_", "", "-", "", " ", "")

func plainWord(word string) string { return wordMarks.Replace(strings.ToLower(word)) }

// distance is the number of bytes to insert, delete, replace or swap with the next to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
