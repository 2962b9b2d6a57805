package logformat

import (
	"bytes"
	"fmt"
)

// zoneBy returns the time zone of a line's time, as +0200, by comparison with
// the time and zone that its message states; the logger's zone may differ. It
// is empty if the message states none.
func zoneBy(when, message []byte) string {
	stated, zone := statedTime(message)
	line, ok := iso(when)
	at, is := iso(append(append([]byte{}, stated...), zone...))
	if zone == "" || !ok || !is || zoned(string(when)) {
		return ""
	}
	const step = 15 * 60e6 // zones are multiples of 15 minutes; lines are written shortly after the stated time
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

// statedTime returns the time at the end of a Started message, and its zone as
// +0200; empty if none exists.
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

// at returns the time of a line, with the zone of the latest request if lines have one.
func (j *Joiner) at(when []byte) string {
	if !j.zoned || len(when) == 0 || zoned(string(when)) {
		return string(when)
	}
	return string(when) + j.zone
}
