package logformat

import (
	"bytes"
	"fmt"
)

// zoneBy returns the time zone of a line's time, such as +0200. It compares the time with the
// time and zone in the line's message, because the logger's zone may differ. It returns "" if
// the message has none.
func zoneBy(when, message []byte) string {
	stated, zone := statedTime(message)
	line, ok := iso(when)
	at, is := iso(append(append([]byte{}, stated...), zone...))
	if zone == "" || !ok || !is || zoned(string(when)) {
		return ""
	}
	const step = 15 * 60e6 // zones are multiples of 15 minutes; a line is written shortly after the time in its message
	east := floorDiv(line-at+step/2, step) * 15
	sign := '+'
	if east < 0 {
		sign, east = '-', -east
	}
	return fmt.Sprintf("%c%02d%02d", sign, east/60, east%60)
}

func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

// statedTime returns the time at the end of a Started message, and its zone such as +0200.
// Both are empty if missing.
func statedTime(message []byte) (at []byte, zone string) {
	const clock = len("2026-11-20 23:58:28")
	n := bytes.LastIndex(message, []byte(" at ")) + len(" at ")
	if n < len(" at ") || len(message) < n+clock {
		return nil, ""
	}
	at = message[n : n+clock]
	switch rest := string(message[n+clock:]); {
	case rest == " UTC":
		return at, "Z"
	case len(rest) == len(" +0200") && (rest[1] == '+' || rest[1] == '-'):
		return at, rest[1:]
	}
	return at, ""
}

// at returns the time of a line. If Started lines have a zone, it adds the latest one.
func (j *Joiner) at(when []byte) string {
	if !j.zoned || len(when) == 0 || zoned(string(when)) {
		return string(when)
	}
	return string(when) + j.zone
}
