package format

import "bytes"

// afterSyslog is where the message of a line begins that a syslog daemon may have
// written: behind "TIME HOST PROGRAM[PID]: ", and <N> in front of it. Without such a
// beginning it is the beginning of the line.
func afterSyslog(line []byte) int {
	head := line[:min(len(line), 512)]
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
