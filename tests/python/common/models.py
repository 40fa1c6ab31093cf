"""Networks that tests train: torchvision is not needed for them."""

from torch import nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al., "Deep Residual Learning", 2015)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18(classes=1000):
    """ResNet-18 as in torchvision: input (N, 3, H, W), output (N, classes)."""
    widths = [64, 64, 128, 128, 256, 256, 512, 512]
    blocks, inputs = [], 64
    for position, width in enumerate(widths):
        stride = 2 if position in (2, 4, 6) else 1
        blocks.append(BasicBlock(inputs, width, stride))
        inputs = width
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, classes),
    )


def transformer_layer(width=64, heads=4, dropout=0.0):
    """Input (N, L, width)."""
    return nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout, activation="gelu", batch_first=True
    )


def train_step(model, optimizer, x, target, loss):
    optimizer.zero_grad()
    value = loss(model(x), target)
    value.backward()
    optimizer.step()
    return value
