//go:build linux || darwin

package record

import (
	"os"
	"syscall"
	"unsafe"
)

// passedOn are the signals that the program gets, too.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}

// alreadyThere says whether the program has a signal without our doing. What a terminal sends when a key is
// pressed, it sends to all programs in the foreground, so to both.
func alreadyThere(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
		return inForeground()
	}
	return false
}

// inForeground says whether this process is in the foreground of a terminal.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}
