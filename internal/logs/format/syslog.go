package format

import "bytes"

// syslogMost is how much of a line is looked at for what a syslog daemon wrote, in bytes.
const syslogMost = 512

// afterSyslog is where the message of a line begins that a syslog daemon may have
// written: behind "TIME HOST PROGRAM[PID]: ", with <N> in front of it or not, or behind
// the header of RFC 5424. Without such a beginning it is the beginning of the line.
func afterSyslog(line []byte) int {
	head := line[:min(len(line), syslogMost)]
	if at := afterPriority(head); at > 0 && bytes.HasPrefix(head[at:], []byte("1 ")) {
		if n := after5424(line, at+2); n > 0 {
			return n
		}
	}
	end := bytes.Index(head, []byte("]: "))
	if end >= 0 {
		open := bytes.LastIndexByte(head[:end], '[')
		if open > 0 {
			if _, ok := Int(head[open+1 : end]); ok {
				return end + 3
			}
		}
	}
	return 0
}

// afterPriority is behind <N>, or 0.
func afterPriority(head []byte) int {
	if len(head) < 3 || head[0] != '<' {
		return 0
	}
	end := bytes.IndexByte(head[:min(len(head), 5)], '>')
	if end < 0 {
		return 0
	}
	if _, ok := Int(head[1:end]); !ok {
		return 0
	}
	return end + 1
}

// after5424 is behind the header and the structured data of RFC 5424 (6.2, 6.3), whose
// version ends at a place: TIMESTAMP HOSTNAME APP-NAME PROCID MSGID [ID NAME="VALUE"...]
// MESSAGE. A ] in a value is \]. It is 0 for what is none.
func after5424(line []byte, at int) int {
	for range 5 {
		n := bytes.IndexByte(line[at:min(len(line), at+syslogMost)], ' ')
		if n <= 0 {
			return 0
		}
		at += n + 1
	}
	switch {
	case at < len(line) && line[at] == '-':
		at++
	case at < len(line) && line[at] == '[':
		for at < len(line) && line[at] == '[' {
			quoted := false
			for at++; ; at++ {
				if at >= len(line) {
					return 0
				}
				if c := line[at]; c == '\\' && quoted {
					at++
				} else if c == '"' {
					quoted = !quoted
				} else if c == ']' && !quoted {
					break
				}
			}
			at++
		}
	default:
		return 0
	}
	if at >= len(line) || line[at] != ' ' {
		return 0
	}
	at++
	return at + len(line[at:]) - len(bytes.TrimPrefix(line[at:], []byte("\xef\xbb\xbf")))
}
