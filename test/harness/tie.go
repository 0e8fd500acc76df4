//go:build unix

package harness

import "os/exec"

// Tie makes a command that is about to start end with this process, where the system can do that.
func Tie(cmd *exec.Cmd) { cmd.SysProcAttr = childAttributes() }
