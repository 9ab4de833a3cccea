"""Style: the console's CSS. It is a string, so that the executable needs no file beside it."""

CSS = """
Screen { layout: vertical; background: $surface; color: $foreground; }
ContentSwitcher { height: 1fr; }
Page { height: 1fr; }

* { scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
    scrollbar-color: $border; scrollbar-color-hover: $primary; scrollbar-color-active: $primary; }
.lead { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
.filter { height: 1; background: $panel; border: none; }
.body { height: 1fr; layout: vertical; layers: rows words; }
.empty { layer: words; width: 100%; height: 100%; margin: 1 0 0 0; content-align: center middle; background: $surface; }
.detail { height: 11; border-top: heavy $border; padding: 0; }
.detail.full { height: 4fr; }
.detail Static { width: 1fr; }
.-wide .body { layout: horizontal; }
.-wide .body LiveTable { width: 1fr; }
.-wide .detail { width: 72; height: 1fr; border-top: none; border-left: heavy $border; }
.-wide .detail.full { width: 3fr; height: 1fr; }
.-short .detail { height: 9; }

ModalScreen { align: center middle; background: $background 60%; }
ModalScreen:nocolor { background: ansi_default; }
.dialog { width: 68; max-width: 96%; height: auto; max-height: 96%; border: round $border; padding: 0 2;
          background: $surface; }
.dialog.big { width: 96; }
.dialog .detail { height: 1fr; border: none; }
Help .dialog { height: 96%; }
.dialog .title { margin: 0 0 1 0; }
.dialog Input { background: $panel; border: none; height: 1; }
.dialog .buttons { height: 1; margin: 1 0 0 0; }
.dialog .buttons Button { margin: 0 2 0 0; min-width: 12; }
.dialog .complaint { color: $text-error; }
.dialog .choices { height: auto; max-height: 60vh; }
.dialog .hint { margin: 1 0 0 0; color: $muted; }
.form .fields { height: auto; max-height: 60vh; }
.form .intro { margin: 0 0 1 0; color: $muted; }
.form .row { height: 1; }
.form .label { width: 20; color: $muted; }
.form Input { width: 1fr; }
.form .wrong { display: none; padding: 0 0 0 20; }
.form .live { margin: 1 0 0 0; }
.form .twin { text-wrap: wrap; max-height: 4; }
.-short .form .fields { max-height: 12; }
.-short .form .twin { max-height: 2; }
.-short .form .intro { max-height: 2; }
.-short .form .live { margin: 0; max-height: 3; }
CommandPalette SearchIcon { display: none; }
CommandPalette > Vertical { margin-top: 2; }
Button:focus { text-style: reverse bold; }
Input:nocolor { text-style: underline; }
Toast { width: 60; max-width: 90%; }
"""
